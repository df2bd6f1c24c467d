/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for a pod's GPUs on a node: what its two halves share, containers that run together
 * (core/placement/placement_assign.c) and init containers (core/placement/placement_init.c).
 * Choices are tried depth first, PLACEMENT_TRIES of them per node before the answer is no: exact
 * for what people write (a few containers), bounded for what an adversary writes.
 */
#pragma once

#include "core/placement/placement_machine.h"

struct search {
	const struct placement *p;
	const struct placement_host *before; /* without this pod */
	const struct placement_request *request;
	struct placement_assignment *out;
	struct placement_host host; /* with what is placed so far */
	struct placement_base base;
	struct placement_view view;
	int32_t only_score; /* the node's, found on the way where a pod has one GPU */
	uint32_t lifted;
	int tries;
	int containers;
	uint8_t order[PLACEMENT_CONTAINERS];
};

/* The GPUs that can take one more of a container, best first. */
struct choices {
	int size;
	uint8_t device[PLACEMENT_DEVICES];
	int32_t score[PLACEMENT_DEVICES];
};

void choices_insert(struct choices *all, uint8_t device, int32_t score);

/* Where on a GPU one more of a container may begin, best first: without a MIG instance, at 0. */
struct starts {
	int size;
	uint8_t start[PLACEMENT_STARTS];
};

void search_starts(const struct search *s, int container, int device, struct starts *ret_all);

/* Puts a slot onto s->host. */
void search_put(struct search *s, const struct placement_slot *slot);
/* Likewise, and notes it; drop() takes it back, on the GPU as it was before. */
void search_add(struct search *s, int container, int device, uint8_t start);
void search_drop(struct search *s, const struct placement_gpu *before);

/* Whether a GPU may join those that the container has: the wishes that are demands. */
must_check bool search_together(const struct search *s, int container, int device);

/* Picks `left` more of `all` for a container, from position `from`; then next(). The picks are
 * taken back if they lead nowhere, or `tries` are used up. */
struct step {
	const struct choices *all;
	int container, from, left;
	bool (*next)(struct search *s, const void *about);
	const void *about;
};
must_check bool search_pick(struct search *s, const struct step *step);

/* The other containers are placed: finds GPUs for the init containers, too, or changes nothing. */
must_check bool placement_place_inits(struct search *s);
