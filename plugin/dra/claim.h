/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an allocated ResourceClaim gives to the containers that use it: the devices, and one share
 * of them. Pure: the claim's tree in, a share or one sentence out.
 *
 * What is counted (the capacities `memory` and `compute`) sets the memory limit and the guarantee.
 * The rest of the share is in the claim's and the DeviceClass's parameters, whose members are the
 * fields of share.def and annotations.def.
 */
#pragma once

#include <cjson/cJSON.h>

#include "plugin/config/annotations.h"
#include "plugin/dra/slices.h"

enum {
	CLAIM_RESULTS = 32, /* of an allocation, as Kubernetes has it */
	CLAIM_DEVICES = 64,
	CLAIM_UID = 40, /* with its NUL */
};

/* A device of this node, in the order of `host`. */
struct claim_device {
	const char *uuid;
	uint64_t total_bytes;
	bool inflated;	   /* more of its memory is given out than there is */
	const char *place; /* of a part that was made for claims: its id; NULL: it was not */
};

struct claim_place {
	const char *driver, *pool;
	const struct claim_device *device;
	uint32_t devices;
	const struct config_share *portion, *most; /* of the configuration */
};

struct claim_result {
	char *request, *pool, *device, *share_id; /* as in the claim; share_id: NULL: none */
	uint32_t index;				  /* of the device */
	char *uuid; /* of one that was missing when the claim's record was read; NULL: it was not */
};

struct claim {
	char uid[CLAIM_UID];
	char *namespace, *name;
	uint32_t results;
	struct claim_result result[CLAIM_RESULTS]; /* those of our driver */
	uint32_t devices, of[CLAIM_DEVICES];	   /* each device once */
	char *texts[SHARE_FIELDS];		   /* NULL: default */
	bool is_admin; /* it looks at its devices, and has no share of them (adminAccess) */
};

/* Whether the claim is the one that the kubelet means and has been allocated; -ENOENT with a
 * sentence if not. */
must_check int claim_check(const cJSON *object, const char *uid, struct fault *why);

/* Does an answer of the API server to a read of the claim say that there is none any more, or that
 * it does not have these devices? A server that does not serve claims answers 404 as well, without
 * its name. */
bool claim_is_gone(int status, const cJSON *answer, const struct claim *claim);

/* After claim_check(). -EINVAL with one sentence; -ENOMEM. */
must_check int claim_read(const cJSON *object, const struct claim_place *place,
			  struct claim **ret_claim, struct fault *why);
void claim_free(struct claim *claim);
OWNED_POINTER(struct claim, claim_free)

/* claim_adjust.c: the share of a prepared claim, as its pods' annotations change it. More memory
 * than the claim consumed is for who can be moved away from the device again (`swap: auto`).
 * -EINVAL with one sentence; -ENOMEM. The caller frees the texts (portion_texts_free()). */
must_check int claim_adjust(const struct claim *claim, const struct claim_place *place,
			    const struct annotation *entries, size_t count, const char *domain,
			    char *ret_texts[SHARE_FIELDS], struct fault *why);

/* claim_config.c, for claim.c: the texts of who only looks. -EINVAL: it has parameters. */
must_check int claim_look(const cJSON *allocation, const struct claim_place *place,
			  struct claim *claim, struct fault *why);
/* claim_config.c, for claim.c: the share's texts, from what was consumed and from the parameters.
 * `percent`, `bytes`: of each device; bytes UINT64_MAX: all of it. */
must_check int claim_share(const cJSON *allocation, const struct claim_place *place, uint64_t bytes,
			   uint32_t percent, struct claim *claim, struct fault *why);
