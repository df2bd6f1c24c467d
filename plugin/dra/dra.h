/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meted as a DRA driver of the kubelet (Dynamic Resource Allocation): it publishes the node's
 * devices as ResourceSlices, kube-scheduler gives claims their shares of them, and the kubelet asks
 * for each claim's preparation before a container that uses it starts. A prepared claim is one
 * tenant, and a CDI file that brings its containers there: so containers and pods that share a
 * claim share its limit.
 *
 *	dra.c        opening and closing; which devices are ours to give
 *	slices.c     ResourceSlices as trees             publish.c    written, watched and repaired
 *	counters.c   what parts take of their GPU, in them
 *	claim.c      what a claim's allocation amounts to    claim_config.c   its parameters
 *	name.c       the driver's name     former.c     whether claims need the former one
 *	register.c   the kubelet's sockets       standby.c   those that who serves hands over
 *	prepare.c    a claim's steps                     serve.c      the kubelet's calls
 *	journal.c    prepared claims, on disk            stale.c      those whose claim is gone
 *	adjust.c     shares that annotations change      claim_adjust.c   to what
 *	joint.c      claims that a container uses together
 *	places.c     parts that are made for claims
 *	unseen.c     claims that are read before their pods are known
 *	status.c     what a claim's status tells
 *	report.c     how the driver fares, for `mete doctor`
 *	health.c     the devices' health for the kubelet
 */
#pragma once

#include "plugin/plugin.h"

struct dra;

/* Reads the journal and keeps its tenants; before host.kept_all(). */
must_check int dra_open(struct plugin *p, struct dra **ret_dra, struct fault *why);
/* The driver's files are known: finishes what was interrupted, and serves the kubelet. Devices are
 * published if the configuration says `dra: on`; prepared claims are served in any case. May be
 * called again. */
must_check int dra_settle(struct dra *dra, struct fault *why);
/* The configuration, the devices or their health may have changed. NULL: does nothing. */
void dra_changed(struct dra *dra);
/* What the configuration allows, or which pods are known, may have changed: looks through all
 * claims, each with all pods. NULL: does nothing. */
void dra_follow(struct dra *dra);
struct pod;
/* A pod's annotations or claims may have changed, or it is over. NULL: does nothing. */
void dra_pod_changed(struct dra *dra, const struct pod *pod);
/* Calls for each pod that uses a claim with that tenant. NULL: does nothing. */
void dra_each_pod(const struct dra *dra, uint32_t tenant,
		  void (*seen)(void *owner, const struct pod *pod), void *owner);
/* The driver's files have changed: rewrites the CDI files of prepared claims. */
void dra_refresh(struct dra *dra);
/* Has a claim a device that was missing when meted started, and no tenant that the host remembers
 * until it is there? */
bool dra_misses(const struct dra *dra);
/* Is a share of the device prepared for a claim? NULL: no. */
bool dra_has(const struct dra *dra, uint32_t device);
/* Calls for each place (plugin/nvidia/parts.h) that a claim has, or is about to have, by the name
 * of the device in ResourceSlices; and for other devices. NULL: does nothing. */
void dra_each_place(const struct dra *dra, void (*each)(void *owner, const char *device),
		    void *owner);
/* What a stand-by of this process has taken over is wanted no more. */
void dra_disown(struct plugin *p);
/* NULL: does nothing. */
void dra_close(struct dra *dra);
