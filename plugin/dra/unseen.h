/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims that have been read before the watch has shown the pods that they are reserved for. Which
 * claims a container uses together stands in its pod, and two of them would become two tenants. So
 * such a claim waits: for the watch, which is about to show the pod, and if that takes long for a
 * list of the node's pods, which is as recent as the kubelet. A pod that the list lacks too is not
 * on this node, or no longer.
 */
#pragma once

#include <cjson/cJSON.h>

#include "base/list.h"
#include "base/loop.h"
#include "base/macros.h"

struct dra;

/* Of a dra. */
struct unseen {
	struct list waiting;
	struct loop_timer again;
	struct api_asked *asked; /* the list; NULL: nobody asks for it */
	uint64_t gone;		 /* pods, when it was asked for */
};

/* All zero: it does not wait. */
struct unseen_claim {
	struct list link;
	cJSON *pods; /* status.reservedFor */
	bool asked;  /* the list that is under way was asked for after it began to wait */
	/* Once: all pods of it that are on this node are known. `problem`: why not; NULL. */
	void (*seen)(struct unseen_claim *waits, const char *problem);
};

must_check int unseen_open(struct dra *dra);
/* 1: `waits->seen` will be called; 0: the claim's pods are known. -ENOMEM. `object`: the claim. */
must_check int unseen_wait(struct dra *dra, struct unseen_claim *waits, const cJSON *object);
/* A pod has been shown, or all that there are have been. */
void unseen_look(struct dra *dra);
/* Nobody wants to know any more. Harmless if it does not wait. */
void unseen_forget(struct unseen_claim *waits);
/* Nobody waits any more. The timer is closed by its owner. */
void unseen_close(struct dra *dra);
