/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This node's pods, according to the API server: their identity, their annotations, and whether
 * they have ended. One watch keeps this up to date; there are no requests for single pods. The
 * information stays while the server is away.
 */
#pragma once

#include <stdbool.h>

#include "base/list.h"
#include "kube/api.h"
#include "plugin/sums/amounts.h"

struct pod {
	struct list link;
	struct list of_uid, of_mirrored; /* of a part of all pods, by hash */
	char *namespace, *name, *uid;
	cJSON *annotations; /* an object of strings; NULL: none */
	/* Names; those of spec.initContainers come last, in their order. None: unknown. */
	char **containers;
	size_t container_count;
	bool *inits; /* of each: it has the slots of those that follow it; sidecars have their own
		      */
	struct amounts_said *amounts; /* of each container, in the same order */
	int32_t priority;	      /* of spec.priorityClassName */
	cJSON *claims;		      /* pods_claims() of it */
	char *mirrored; /* the kubelet's UID for a static pod; NULL: it is not static */
	bool over;	/* Succeeded or Failed: its containers no longer run */
	bool ending;	/* it is being deleted */
	bool gone;	/* it is no longer there: this is being reported */
	bool seen;	/* since the list was restarted */
};

struct pods_owner {
	void *owner;
	void (*changed)(void *owner, const struct pod *pod);
	void (*gone)(void *owner, const struct pod *pod); /* or over */
	void (*listed)(void *owner);
	/* NULL: the problem is over. */
	void (*troubled)(void *owner, const char *problem);
};

struct pods;

/* `names`: of the resources whose amounts are read. */
must_check int pods_open(struct api *api, const char *node, const struct amounts_names *names,
			 const struct pods_owner *owner, struct pods **ret_pods);
void pods_close(struct pods *pods);

/* All existing pods have been reported. */
bool pods_known(const struct pods *pods);
/* Calls for each pod of the node that has not ended, in no order. */
void pods_each(const struct pods *pods, void (*seen)(void *owner, const struct pod *pod),
	       void *owner);
/* Of two pods with the same name, the one that appeared last: the other one is gone, which will
 * be reported later. */
const struct pod *pods_find(const struct pods *pods, const char *namespace, const char *name);
const struct pod *pods_find_uid(const struct pods *pods, const char *uid);

/* A pod that a list has and the watch has not shown yet. One that is known is left as it is. */
void pods_learn(struct pods *pods, const cJSON *object);
/* How many have gone since the start. */
uint64_t pods_gone(const struct pods *pods);

/* pods_claims.c: the names of the claims that a Pod's containers use, as far as they are known yet:
 * an array of names for each container. New; NULL: out of memory. */
cJSON *pods_claims(const cJSON *object);
/* Whether one of its containers uses the claim. */
bool pods_uses_claim(const struct pod *pod, const char *namespace, const char *claim);
bool pods_list_has(const cJSON *names, const char *claim);
