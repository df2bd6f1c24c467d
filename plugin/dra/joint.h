/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims that a container uses together. A process has one tenant, so they are one: it has the
 * devices of all of them. A tenant's share says the same of each device, so theirs have to agree;
 * and no device may be in two of them, since a device has one share of a tenant.
 *
 * Who comes last makes the tenant that all have from then on. Nobody has joined the former ones:
 * the kubelet starts a pod's containers when all of its claims are prepared, so a claim that a
 * running pod has without the new one is not taken along. Pods are known by then (unseen.h).
 */
#pragma once

#include "plugin/dra/journal.h"

enum { JOINT_CLAIMS = 16 };

struct dra;

struct joint {
	uint32_t count;
	struct journal_claim *member[JOINT_CLAIMS]; /* of the journal; prepared */
	struct {
		uint32_t tenant;
		char folder[HOST_FOLDER_MAX];
	} was[JOINT_CLAIMS]; /* what each had before joint_move() */
};

/* The claims whose tenant a new one is to be part of. -EINVAL with one sentence: they cannot be
 * one tenant. */
must_check int joint_find(const struct dra *dra, const struct claim *claim, struct joint *ret_joint,
			  struct fault *why);
/* All devices of the claims with the entry's tenant, its own first. */
uint32_t joint_devices(const struct dra *dra, const struct journal_claim *entry,
		       uint32_t of[HOST_DEVICES]);
/* The members have the entry's tenant from now on. -errno with a sentence: some do; joint_back() is
 * due. */
must_check int joint_move(struct dra *dra, struct joint *joint, struct journal_claim *entry,
			  struct fault *why);
/* They have what they had before. */
void joint_back(struct dra *dra, struct joint *joint);
/* Ends the tenants that they had before. */
void joint_settle(struct dra *dra, const struct joint *joint);
