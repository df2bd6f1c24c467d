/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by plugin/sums/seats*.c only. */
#pragma once

#include "kube/json.h"
#include "plugin/sums/amounts.h"
#include "plugin/sums/seats.h"

/* A pod that has GPUs, or waits for some. */
struct seat {
	struct list link;
	char *uid, *namespace, *pod;
	char *own_uid; /* as bindings have it: of a static pod the kubelet's, not the mirror's */
	int32_t priority;
	struct seating_pod is;
	char *name[PLACEMENT_CONTAINERS];
	char key[PLACEMENT_CONTAINERS][IDS_KEY]; /* of its binding; "": it has not started */
	const struct binding *bound[PLACEMENT_CONTAINERS]; /* of that key; during seats_settle() */
	uint32_t ended; /* bits of containers whose bindings are gone */
	bool said;	/* why it waits */
	bool started;	/* a container of the pod is bound */
};

struct seats {
	struct plugin *plugin;
	struct list all;
	struct amounts_names names;
	struct loop_timer soon;
	uint32_t devices; /* in service, when it was settled last */
};

/* Of the seats as they are now. -ENOMEM. */
struct seats_index {
	size_t count;
	struct seat **by_pod, **by_uid, **by_name; /* by_pod: as the API server has its UID */
};
must_check int seats_index_make(const struct seats *seats, struct seats_index *ret_index);
void seats_index_free(struct seats_index *index);
/* The seat of the container's pod; NULL: it has none. */
struct seat *seats_index_find(const struct seats_index *index, const struct binding *b);
/* Has the pod a seat? */
bool seats_index_has(const struct seats_index *index, const struct pod *pod);

/* Of the bindings as they are now. -ENOMEM. */
struct seats_bound {
	size_t count;
	const struct binding **row;
};
must_check int seats_bound_make(const struct plugin *p, struct seats_bound *ret_bound);
void seats_bound_free(struct seats_bound *bound);
/* As seats_is_bound(). */
bool seats_bound_has(const struct seats_bound *bound, const struct pod *pod, const char *container);

/* The place of a container in its pod's seat; -1: it has none. */
int seats_place(const struct seat *seat, const char *container);
/* Is the container counted by this seat, its pod's? */
bool seats_cover(const struct seat *seat, const struct binding *b);
/* For the container that asks, and the others of the pod that have not begun. -EINVAL with a
 * sentence: their amounts make no sense. */
must_check int seats_make(struct plugin *p, const struct pod *pod, const char *asks,
			  struct seat **ret_seat, struct fault *why);
void seats_free(struct seat *seat);
/* What its pod's annotations say now of being alone and of its class, and those in `bound`. One
 * that nobody has sat down on is given up if that has changed. */
void seats_reread(const struct plugin *p, struct seat *seat);
/* What its annotations say now of being alone must have been counted. -EINVAL with a sentence. */
must_check int seats_check_alone(const struct plugin *p, const struct pod *pod,
				 const char *container, const struct seating_container *it,
				 struct fault *why);
/* Is it a container of the seat's pod? */
bool seats_are_of(const struct binding *b, const struct seat *seat);
/* Gives a seat to each pod that fits, and notes the reason for each other one. Returns the
 * number of new seats. */
must_check int seats_settle(struct plugin *p, struct fault *why);
bool seats_is_bound(const struct plugin *p, const struct pod *pod, const char *container);
/* A container without a seat, as a pod of its own. */
void seats_sit_alone(const struct plugin *p, const struct binding *b, struct seating_pod *pod);
bool seats_binding_yields(const struct binding *b);
/* The node's devices as they are now, SEATING_DEVICES at most. */
void seats_node(const struct plugin *p, struct seating_node *ret_node);
