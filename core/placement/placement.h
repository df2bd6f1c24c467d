/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which node and which GPUs a pod gets, and why not the others.
 *
 * Pure: no clock, no lock, no allocation, no logging, no randomness. The caller gives the memory
 * and tells what happened; the scheduler, the node, the command line and the replay of traces run
 * exactly this code. It refuses to promise anything twice, to guess (a request that cannot be
 * placed gets one reason per node), and to read names: nodes, models, taints and profiles are small
 * numbers that the caller maps.
 *
 * A machine belongs to one thread at a time: even a question (a decision, a reason) writes down
 * what it found. Only calls that take a const machine may run beside each other.
 *
 * Amounts: GPU compute and host CPU in milli (1000 = one GPU, one core), memory in bytes. A
 * container's amounts are per GPU. A GPU's two dimensions, memory and compute, are promised
 * independently; what is left of it is the smaller of the two parts left.
 *
 * Decisions are incremental. Requests that ask for the same are one *shape*; a shape remembers its
 * score on each node and, when asked again, examines only nodes that changed since.
 *
 * Laws (tests/unit/test_placement_always.c attacks them with random histories):
 *   - nothing is promised twice: per GPU and class, promises stay within capacity times factor;
 *     slots, MIG placements, exclusive GPUs, host CPU and host memory likewise. Promises beyond
 *     that, because the world is so (placement_adopt(), placement_update_node(), lower factors),
 *     are known as such, and no decision adds to them;
 *   - incremental equals from scratch: after any history a decision is the one that an empty
 *     cache would give (foresight: after placement_reprice());
 *   - a refusal names the binding constraint: where lifting one constraint alone would let the
 *     request in, the reason named is such a constraint.
 *
 * Policies and what they are good for: docs/placement-study.md. FGD, and the five baselines it was
 * compared with, follow "Beware of Fragmentation" (USENIX ATC '23).
 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"

enum {
	PLACEMENT_DEVICES = 16,	   /* GPUs of a node */
	PLACEMENT_CONTAINERS = 16, /* containers of a pod */
	PLACEMENT_SLOTS = 32,	   /* GPUs of a pod, over all containers */
	PLACEMENT_CLASSES = 3,	   /* interactive, standard, batch */
	PLACEMENT_PROFILES = 16,   /* MIG profiles of a geometry */
	PLACEMENT_GEOMETRIES = 15, /* different lists of MIG profiles */
	PLACEMENT_MODELS = 64,
	PLACEMENT_WHOLE = 1000, /* milli */
	PLACEMENT_STAYS = 8,	/* eighths of how long pods usually stay */
	PLACEMENT_ANYWHERE = -1,
};

enum placement_reason {
	PLACEMENT_FITS = 0,
#define REASON(name, sentence) PLACEMENT_NO_##name,
#include "core/placement/placement_reasons.def"
#undef REASON
	PLACEMENT_REASONS
};

/* Outcomes beside a reason. */
enum {
	PLACEMENT_NOWHERE =
		100,	      /* no node can take the request: ask placement_explain() per node */
	PLACEMENT_NO_VICTIMS, /* not even without all pods of lower priority that may go */
	PLACEMENT_TOO_SMALL,  /* not even without any pod: too small, or not for it */
};

enum placement_policy {
#define POLICY(name, spelling, within, what) PLACEMENT_##name,
#include "core/placement/placement_policies.def"
#undef POLICY
	PLACEMENT_POLICIES
};

const char *placement_policy_name(enum placement_policy policy);
const char *placement_reason_text(enum placement_reason reason);
/* -EINVAL: no such policy. */
must_check int placement_policy_parse(const char *spelling, enum placement_policy *ret_policy);

struct placement_limits {
	uint32_t nodes;
	uint32_t pods;	   /* placed at one time */
	uint32_t charges;  /* GPUs held by pods, each pod's counted: about pods + GPUs */
	uint32_t shapes;   /* different requests remembered; the least recently used is forgotten */
	uint32_t typicals; /* different usual pods */
	uint32_t steps;	   /* pods that come or go on trial at a time; 0: nothing is tried */
};

/* How the cluster is run. All zero but `policy` is legal: no overcommit. */
struct placement_config {
	enum placement_policy policy;
	/* Per class: how much of a GPU may be promised to it and to all classes with no larger
	 * factor together, in milli of the GPU; 0 means 1000. */
	uint32_t compute_factor_milli[PLACEMENT_CLASSES];
	uint32_t memory_factor_milli[PLACEMENT_CLASSES];
};

struct placement_device {
	uint64_t memory_bytes;
	/* No container gets more of its memory, however much may be promised; 0: any amount. */
	uint64_t most_bytes;
	uint32_t compute_milli; /* usually PLACEMENT_WHOLE */
	uint32_t taints;	/* bits; a request must tolerate all of them */
	uint16_t slots;		/* tenants that it can have at a time; 0: any number */
	uint16_t links;		/* bit i: linked to the node's device i (NVLink) */
	uint8_t numa;
	uint8_t geometry; /* 0: not split by MIG; else from placement_geometry() */
	bool lost;	  /* out of service: takes no pods; those that run stay in the books */
};

struct placement_node {
	uint64_t host_memory_bytes;
	uint32_t cpu_milli;
	uint32_t tags;	 /* bits, of the caller's; a request may avoid nodes that have some */
	uint8_t model;	 /* one model per node */
	uint8_t devices; /* 0: a node without GPUs */
	bool cordoned;
	struct placement_device device[PLACEMENT_DEVICES];
};

/* A MIG profile: instances that occupy `size` memory slices from one of `starts`. */
struct placement_profile {
	uint32_t starts; /* bit i: may start at memory slice i */
	uint16_t name;	 /* the caller's number, the same for all geometries */
	uint8_t size;	 /* memory slices */
	uint8_t compute; /* compute slices */
	uint8_t most;	 /* instances per GPU; 0: as many as fit */
};

enum placement_kind {
	PLACEMENT_APP,	   /* runs for the pod's life */
	PLACEMENT_INIT,	   /* runs alone, before: may use what the others will get */
	PLACEMENT_SIDECAR, /* an init container that stays */
};

enum placement_wish { PLACEMENT_ANY, PLACEMENT_PREFER, PLACEMENT_REQUIRE };

/* How to choose, whatever the policy is. */
enum placement_way {
	PLACEMENT_WAY_POLICY,
	PLACEMENT_WAY_PACK,   /* as binpack does */
	PLACEMENT_WAY_SPREAD, /* as spread does */
};

struct placement_container {
	uint64_t memory_bytes; /* per GPU; 0: not counted */
	uint64_t host_memory_bytes;
	uint32_t cpu_milli;
	uint32_t compute_milli; /* per GPU; 0: not counted */
	uint16_t profile;	/* != 0: a MIG instance of this profile per GPU */
	uint8_t devices;	/* different GPUs */
	uint8_t kind;		/* enum placement_kind */
	bool exclusive;		/* GPUs that no other pod uses */
};

/* A time that does not come. */
#define PLACEMENT_FOR_GOOD UINT64_MAX

struct placement_request {
	uint64_t models;	/* bits; 0: any */
	uint32_t tolerations;	/* bits */
	uint32_t named_devices; /* bits of `node`'s GPUs; 0: any */
	int32_t node;		/* or PLACEMENT_ANYWHERE */
	uint8_t class;		/* 0 .. PLACEMENT_CLASSES - 1 */
	uint64_t prefers;	/* bits of models: nodes of these are better than all others */
	uint32_t avoids; /* bits of tags: nodes with any of these are worse than all others */
	uint8_t way;	 /* enum placement_way */
	uint8_t stays;	 /* how long, if that is known: 1 .. PLACEMENT_STAYS; else 0 */
	uint8_t numa;	 /* enum placement_wish: GPUs of one NUMA node */
	uint8_t links;	 /* enum placement_wish: GPUs linked pairwise */
	uint8_t containers;
	struct placement_container container[PLACEMENT_CONTAINERS];
};

struct placement_slot {
	uint8_t container;
	uint8_t device;
	uint8_t start; /* of a MIG instance */
};

struct placement_assignment {
	uint8_t size;
	struct placement_slot slot[PLACEMENT_SLOTS];
};

struct placement_decision {
	uint32_t node;
	int32_t score; /* comparable within one shape only; larger is better */
	struct placement_assignment assignment;
};

/* Why one node refuses. The numbers are what the binding constraint needs, and the best that the
 * node has: of memory and compute on each of as many GPUs as the container wants, where nothing
 * else is in the way. For constraints without an amount both are counts of GPUs. */
struct placement_refusal {
	enum placement_reason reason;
	uint8_t container;
	uint64_t needed;
	uint64_t available;
};

struct placement_totals {
	uint64_t compute_milli;	 /* of all GPUs */
	uint64_t promised_milli; /* as booked, overcommitted parts included */
	uint64_t used_milli;	 /* Σ min(capacity, promised) */
	uint32_t devices;
	uint32_t pods;
	uint32_t nodes;
	uint32_t nodes_over; /* on which more is promised than there is */
};

struct placement;

/* A machine that needs `size` bytes: 0 where the limits are beyond 32-bit indices. */
size_t placement_size(const struct placement_limits *limits);
/* -EINVAL: memory missing, misaligned (8) or smaller than placement_size(). */
must_check int placement_init(void *memory, size_t size, const struct placement_limits *limits,
			      struct placement **ret_placement);

/* Forgets all scores. Pods stay where they are, though lower factors leave too little for them.
 * -EINVAL: an unknown policy, or a factor below 1000. */
must_check int placement_configure(struct placement *p, const struct placement_config *config);

/* The usual pods: `counts[i]` times `requests[i]`. fgd and foresight measure free room by them;
 * foresight should be told of all, as rare pods may be large. The order of equals does not matter.
 * -ENOSPC: more than limits.typicals different ones, or more than 32,768 pairs of different amounts
 * of CPU and of GPUs; -EINVAL: a malformed one. Where it fails nothing is known of the usual pods.
 * Only first containers count. */
must_check int placement_learn(struct placement *p, const struct placement_request *requests,
			       const uint32_t *counts, size_t size);

/* foresight's prices follow the free room as pods come and go: they are found again when so many
 * have come or gone as are a quarter of those that are there, at least 32. This call has them found
 * before the next decision, which then depends on the books alone. */
void placement_reprice(struct placement *p);

/* Registers a list of MIG profiles. -ENOSPC, -EINVAL. */
must_check int placement_geometry(struct placement *p, const struct placement_profile *profiles,
				  size_t size, uint8_t *ret_geometry);

/* -ENOSPC: limits.nodes; -EINVAL: too many devices, an unknown geometry or model. */
must_check int placement_add_node(struct placement *p, const struct placement_node *node,
				  uint32_t *ret_node);
/* -ENOENT; -EBUSY: pods are on it (release them first). Numbers of removed nodes are used again. */
must_check int placement_remove_node(struct placement *p, uint32_t node);
/* The node is another one now: relabelled, larger or smaller, a GPU lost or back, split by MIG
 * another way. All values of `node` apply, its taints and its cordon too; placement_get_node()
 * tells the former ones. Pods that run stay in the books, even where they no longer fit: more is
 * then promised than there is (placement_left() shows it), and nothing new is put there until it
 * fits again. A GPU that was split another way takes no new pods while one from before is there: a
 * pod with an instance of a profile that is not offered (there) any more, or with a part of a GPU
 * that is split by now. -ENOENT, -EINVAL; -EBUSY: a GPU that is left out is in use (call it
 * lost). */
must_check int placement_update_node(struct placement *p, uint32_t node,
				     const struct placement_node *now);
/* -ENOENT. */
must_check int placement_get_node(const struct placement *p, uint32_t node,
				  struct placement_node *ret_node);

/* -ENOENT. Its pods stay. */
must_check int placement_cordon(struct placement *p, uint32_t node, bool cordoned);
must_check int placement_taint(struct placement *p, uint32_t node, uint32_t device,
			       uint32_t taints);

/* -EINVAL: the request itself makes no sense (amounts without a GPU, too many GPUs ...). */
must_check int placement_valid(const struct placement_request *request);

/* The `stays` of a pod that leaves in `left`, where pods usually stay for `usual`. */
static inline uint8_t placement_eighths(uint64_t left, uint64_t usual)
{
	uint64_t eighth = usual / PLACEMENT_STAYS + 1;

	return left / eighth >= PLACEMENT_STAYS ? PLACEMENT_STAYS : (uint8_t)(left / eighth + 1);
}

/* Finds the best node and GPUs for the request. Books nothing. PLACEMENT_NOWHERE, -EINVAL. */
must_check int placement_decide(struct placement *p, const struct placement_request *request,
				struct placement_decision *ret_decision);
/* The same for one node: a reason (> 0) where it refuses. -ENOENT, -EINVAL. */
must_check int placement_try(struct placement *p, const struct placement_request *request,
			     uint32_t node, struct placement_decision *ret_decision);
/* How the nodes rank, for a caller that ranks: INT32_MIN where a node refuses. -EINVAL. */
must_check int placement_scores(struct placement *p, const struct placement_request *request,
				const int32_t **ret_scores, uint32_t *ret_size);

/* Books the request as assigned; the assignment may be another process's, it is checked like any.
 * A reason (> 0) where it does not hold (any more). -ENOSPC: limits.pods or .charges. */
must_check int placement_commit(struct placement *p, const struct placement_request *request,
				uint32_t node, const struct placement_assignment *assignment,
				int32_t priority, uint64_t *ret_pod);
/* Books a pod that runs already, whether it fits or not: after a restart, each that is bound. More
 * may then be promised than there is; it is shown as such (placement_left()), and nothing new is
 * put there until it fits again. -EINVAL: an assignment that is not the request's, or names GPUs
 * that the node does not have; -ENOENT; -ENOSPC; -ERANGE: more than can be counted. */
must_check int placement_adopt(struct placement *p, const struct placement_request *request,
			       uint32_t node, const struct placement_assignment *assignment,
			       int32_t priority, uint64_t *ret_pod);
/* Books like placement_commit(), until a time: a place that is kept for a pod that may not come. It
 * is a pod like any until then. Times are the caller's, in whatever unit; nothing ends but by
 * placement_expire(). */
must_check int placement_reserve(struct placement *p, const struct placement_request *request,
				 uint32_t node, const struct placement_assignment *assignment,
				 int32_t priority, uint64_t until, uint64_t *ret_pod);
/* The pod ends at another time now; PLACEMENT_FOR_GOOD: it has come. -ENOENT: it has ended. */
must_check int placement_keep(struct placement *p, uint64_t pod, uint64_t until);
/* The time that the pod still stays: 1 .. PLACEMENT_STAYS; 0: it is not known. Only foresight uses
 * it. -ENOENT, -EINVAL; -EBUSY: on trial. */
must_check int placement_stays(struct placement *p, uint64_t pod, uint8_t stays);
/* Gives back the pods that end at `now` or before, the earliest first, and names them: `room` at a
 * time. Returns their number; if that is `room`, there may be more. */
must_check size_t placement_expire(struct placement *p, uint64_t now, uint64_t *ret_pods,
				   size_t room);
/* When the next one ends; PLACEMENT_FOR_GOOD: none does. */
uint64_t placement_next_end(const struct placement *p);
/* Gives everything back. -ENOENT: no such pod (any more): giving back twice is harmless. -ENOSPC:
 * limits.steps, on trial. */
must_check int placement_release(struct placement *p, uint64_t pod);

/* Trials. From placement_begin() on, pods come and go on trial: placement_roll_back() undoes all of
 * that, down to each pod's name and place in the list, and placement_finish() makes it last. Until
 * then questions are answered as if it lasted. A pod that is released on trial still takes up
 * limits.pods and limits.charges. Meanwhile nodes, the configuration and the usual pods stay as
 * they are (-EBUSY), time stands still (placement_keep(): -EBUSY), and foresight keeps its prices.
 * -EBUSY: one is under way; -EINVAL: none is. A step that is not one of limits.steps: -ENOSPC. */
must_check int placement_begin(struct placement *p);
must_check int placement_roll_back(struct placement *p);
must_check int placement_finish(struct placement *p);

/* Places all of a gang and books them, or none: in the order given or, where that leads nowhere,
 * the largest first. Other orders are not tried. On trial, too. PLACEMENT_NOWHERE, with the
 * last request that found no place in *ret_stuck; -EINVAL; -ENOSPC: limits.steps, .pods or
 * .charges. */
must_check int placement_gang(struct placement *p, const struct placement_request *requests,
			      size_t size, int32_t priority,
			      struct placement_decision *ret_decisions, uint64_t *ret_pods,
			      size_t *ret_stuck);

/* Why `node` refuses; reason is PLACEMENT_FITS where it does not. -ENOENT, -EINVAL. */
must_check int placement_explain(struct placement *p, const struct placement_request *request,
				 uint32_t node, struct placement_refusal *ret_refusal);

/* The pods of `node` with a lower priority that must go so that the request fits, the most
 * important first: none of them could stay. PLACEMENT_NO_VICTIMS, PLACEMENT_TOO_SMALL; -ENOENT,
 * -EINVAL; -ENOSPC: more than `room`. */
must_check int placement_victims(struct placement *p, const struct placement_request *request,
				 uint32_t node, int32_t priority, uint64_t *ret_pods, size_t room,
				 size_t *ret_size);
/* The node where that hurts least: lowest highest priority, then fewest pods. Likewise. */
must_check int placement_preempt(struct placement *p, const struct placement_request *request,
				 int32_t priority, uint32_t *ret_node, uint64_t *ret_pods,
				 size_t room, size_t *ret_size);

/* How pods may be made to go. */
struct placement_preemption {
	int32_t priority;      /* pods below it may */
	const uint32_t *nodes; /* candidates; NULL: all nodes */
	size_t nodes_size;
	const uint32_t *allowed; /* [budget - 1]: so many of its pods */
	uint16_t budgets;	 /* those beyond allow any number */
	bool keep_budgets;	 /* no more than that; else as few more as can be */
};

struct placement_victims {
	uint32_t node;
	uint32_t overdrawn; /* so many go beyond what their budgets allow */
	int32_t priority;   /* the highest of any that goes */
	size_t size;
};

/* The pod's leaving counts for a disruption budget; 0: for none. -ENOENT. */
must_check int placement_protect(struct placement *p, uint64_t pod, uint16_t budget);
/* The candidate where that hurts least: the fewest beyond their budgets, then the lowest highest
 * priority, then the fewest pods; and those pods. Pods whose budget would be overdrawn are kept
 * before others, one by one; other choices are not tried. PLACEMENT_NO_VICTIMS: on no candidate,
 * but on some if it were empty; PLACEMENT_TOO_SMALL: on none if it were. -ENOENT, -EINVAL, -ENOSPC.
 */
must_check int placement_preempt_among(struct placement *p, const struct placement_request *request,
				       const struct placement_preemption *how, uint64_t *ret_pods,
				       size_t room, struct placement_victims *ret_victims);

/* How many nodes refuse for which reason; [PLACEMENT_FITS]: how many do not. Each is examined as
 * placement_explain() does. -EINVAL. */
must_check int placement_reasons(struct placement *p, const struct placement_request *request,
				 uint32_t ret_nodes[PLACEMENT_REASONS]);

/* The pods of a node, the latest first; *ret_size is how many there are. -ENOENT; -ENOSPC: more
 * than `room`, which are then there. */
must_check int placement_pods(const struct placement *p, uint32_t node, uint64_t *ret_pods,
			      size_t room, size_t *ret_size);

struct placement_pod_info {
	uint64_t until; /* or PLACEMENT_FOR_GOOD */
	uint32_t node;
	int32_t priority;
	uint16_t budget; /* placement_protect() */
	uint8_t class;
};

/* -ENOENT: no such pod (any more). */
must_check int placement_get_pod(const struct placement *p, uint64_t pod,
				 struct placement_pod_info *ret_pod);

/* The room that a pod of a class could still have. A GPU that one pod has alone, or that is split
 * by MIG, or that is lost, or that has no slot left, has none. Taints and cordons are ignored.
 * `over`: by how much more is promised, to the class and those that count with it, than there is. A
 * node that changed under its pods, or pods that run where they do not fit, make it so. */
struct placement_device_left {
	uint64_t memory_bytes, memory_over_bytes;
	uint32_t compute_milli, compute_over_milli;
	uint32_t mig_taken; /* memory slices in use, a bit each */
	uint16_t tenants;
	bool over; /* in whichever way: tenants without a slot, or beside one that is to be alone */
	bool lost;
};

struct placement_left {
	uint64_t cpu_milli, cpu_over_milli;
	uint64_t host_memory_bytes, host_memory_over_bytes;
	uint32_t pods;
	uint8_t devices;
	bool over; /* anything of it */
	struct placement_device_left device[PLACEMENT_DEVICES];
};

/* -ENOENT, -EINVAL. */
must_check int placement_left(const struct placement *p, uint32_t node, uint8_t class,
			      struct placement_left *ret_left);

void placement_totals(const struct placement *p, struct placement_totals *ret_totals);
/* GPU milli that the usual pods cannot use, averaged over them (FGD's measure). */
double placement_fragmentation(struct placement *p);

/* Audits the books against the pods, promises beyond capacity against those that are known, and the
 * remembered scores against new ones: 0, or -EILSEQ with the node in *ret_node. For tests and for
 * `doctor`: O(pods + shapes * nodes). */
must_check int placement_audit(struct placement *p, uint32_t *ret_node);
