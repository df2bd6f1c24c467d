/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the placement machine: what its files share. Only core/placement/ includes it.
 */
#pragma once

#include <string.h>

#include "core/placement/placement_state.h"

/* A set of reasons is a word. */
#define BIT(name) (1u << PLACEMENT_NO_##name)

static inline enum placement_reason placement_first_reason(uint32_t refusals)
{
	return refusals ? (enum placement_reason)__builtin_ctz(refusals) : PLACEMENT_FITS;
}

/* A GPU's compute, if it is there. */
static inline uint32_t placement_gpu_milli(const struct placement_gpu *gpu)
{
	return gpu->is.lost ? 0 : gpu->is.compute_milli;
}

/* The compute of all of its GPUs. */
static inline int64_t placement_milli(const struct placement_host *host)
{
	int64_t sum = 0;

	for (int i = 0; i < host->devices; i++)
		sum += placement_gpu_milli(&host->gpu[i]);
	return sum;
}

/* Nothing new can be put there, whatever it is. */
static inline bool placement_gone(const struct placement_gpu *gpu)
{
	return gpu->is.lost || gpu->leftovers;
}

/* The room of a host; negative: by how much more is promised than there is. */
static inline int64_t placement_cpu_room(const struct placement_host *host)
{
	return host->cpu - host->cpu_used;
}

static inline int64_t placement_host_room(const struct placement_host *host)
{
	return (int64_t)host->memory_bytes - (int64_t)host->memory_used;
}

/* The number of FGD's weights for each model: steps of CPU times usuals. */
static inline size_t placement_cells(const struct placement_limits *limits)
{
	size_t all = ((size_t)limits->typicals + 1) * limits->typicals, most = 1 << 15;

	return all < most ? all : most;
}

/* How many bits are set. The builtin calls libgcc where the CPU's instruction may be missing. */
static inline int placement_bits(uint32_t set)
{
	set -= set >> 1 & 0x55555555;
	set = (set & 0x33333333) + (set >> 2 & 0x33333333);
	return (int)(((set + (set >> 4)) & 0x0f0f0f0f) * 0x01010101u >> 24);
}

/* How many tenants it can have. Those without a bound are still counted in 16 bits. */
static inline uint16_t placement_slots(const struct placement_gpu *gpu)
{
	return gpu->is.slots ? gpu->is.slots : UINT16_MAX - 2 * PLACEMENT_SLOTS;
}

/* No other pod can have a part of it, whatever is left. */
static inline bool placement_closed(const struct placement_gpu *gpu)
{
	return gpu->exclusive || gpu->is.geometry || placement_gone(gpu) ||
	       gpu->tenants >= placement_slots(gpu);
}

/* GPUs without tenants. */
static inline int placement_empties(const struct placement_host *host)
{
	int n = 0;

	for (int i = 0; i < host->devices; i++)
		n += host->gpu[i].tenants == 0 && !host->gpu[i].is.lost;
	return n;
}

/* A quick test: a node that is refused here is refused by the full test as well. */
static inline bool placement_may_fit(const struct placement *p, uint32_t node,
				     const struct placement_needs *needs)
{
	const struct placement_glance *g = &p->glances[node];

	return g->open && needs->cpu <= g->cpu && needs->compute <= g->compute &&
	       needs->memory <= g->memory && needs->host_memory <= g->host_memory &&
	       needs->devices <= g->devices && needs->wholes <= g->wholes &&
	       needs->empties <= g->empties && needs->mig <= g->mig &&
	       (!needs->models || needs->models >> g->model & 1) &&
	       (needs->node == PLACEMENT_ANYWHERE || (uint32_t)needs->node == node);
}

/* placement_fit.c: what fits. `lifted`: reasons (bits) that are overlooked. */
int64_t placement_compute_room(const struct placement *p, const struct placement_gpu *gpu,
			       uint8_t class);
int64_t placement_memory_room(const struct placement *p, const struct placement_gpu *gpu,
			      uint8_t class);
uint32_t placement_gpu_refusals(const struct placement *p, const struct placement_gpu *gpu,
				const struct placement_request *request,
				const struct placement_container *want, uint32_t index);
int placement_find_profile(const struct placement *p, const struct placement_gpu *gpu,
			   uint16_t name);
/* The profile of an instance that is there; none where the GPU offers no such one there. */
int placement_home(const struct placement *p, const struct placement_gpu *gpu, uint16_t name,
		   uint8_t start);
/* The memory slices of an instance. */
uint32_t placement_slices(const struct placement *p, const struct placement_gpu *gpu, int profile,
			  uint8_t start);
int placement_find_starts(const struct placement *p, const struct placement_gpu *gpu, int profile,
			  uint8_t *ret_starts);
/* How many instances would fit into what is left of such a GPU, beside those that there are. */
int placement_instances(const struct placement *p, uint8_t geometry, uint32_t taken,
			const uint8_t *there, uint16_t name);
void placement_put(const struct placement *p, struct placement_gpu *gpu, uint8_t class,
		   const struct placement_container *want, int profile, uint8_t start);
uint32_t placement_node_refusals(const struct placement_host *host, uint32_t node,
				 const struct placement_request *request);
void placement_host_needs(const struct placement_request *request, int64_t *ret_cpu,
			  uint64_t *ret_memory);
bool placement_same_device(const struct placement_device *a, const struct placement_device *b);
bool placement_same_gpu(const struct placement_gpu *a, const struct placement_gpu *b);
void placement_copy_host(struct placement_host *to, const struct placement_host *from);
bool placement_wish_holds(const struct placement_host *host,
			  const struct placement_request *request,
			  const struct placement_assignment *assignment, bool links);

/* placement_assign.c: which GPUs, and how good that is. 0, or -ENOENT where there are none. */
must_check int placement_assign(struct placement *p, struct placement_host *host, uint32_t node,
				const struct placement_request *request, uint32_t lifted,
				struct placement_assignment *ret_assignment, int32_t *ret_score);

/* placement_book.c: a checked assignment as a bill; a reason where it does not hold. */
must_check int placement_bill(const struct placement *p, const struct placement_host *host,
			      const struct placement_request *request,
			      const struct placement_assignment *assignment, uint32_t lifted,
			      struct placement_bill *ret_bill);
/* Takes a pod off a host, or puts it back: for trials and for good. */
void placement_lift_pod(const struct placement *p, struct placement_host *host,
			struct placement_pod *pod, bool back);
/* The host's books anew, from its pods. */
void placement_rebuild(const struct placement *p, struct placement_host *host);
/* Adds a host to the totals, or takes it out: around each change of it. */
void placement_count(struct placement *p, const struct placement_host *host, int sign);
uint8_t placement_kind(const struct placement_request *request);
uint64_t placement_pod_name(const struct placement *p, int32_t at);
/* NULL: there is no such node. */
static inline struct placement_host *placement_find_host(const struct placement *p, uint32_t node)
{
	return node < p->node_end && p->hosts[node].present ? &p->hosts[node] : NULL;
}

/* NULL: no such pod (any more). */
struct placement_pod *placement_find_pod(const struct placement *p, uint64_t name);

/* Takes a pod out of the books; for good, or to be back, the last to leave first. */
void placement_leave(struct placement *p, int32_t at, bool to_be_back);
void placement_come_back(struct placement *p, int32_t at);
/* Its record is free, as its charges are. */
void placement_forget_pod(struct placement *p, int32_t at);

/* placement_trial.c: notes a step, if on trial. -ENOSPC. */
must_check int placement_note(struct placement *p, int32_t step);

/* placement_until.c: when a pod ends; it is not to end, as it is not there. */
void placement_end_at(struct placement *p, int32_t at, uint64_t until);
void placement_end_never(struct placement *p, int32_t at);
bool placement_ends_add_up(const struct placement *p);

/* placement_over.c: promises beyond capacity. Finds them, as the world changed; keeps those that
 * still hold, as pods left; is there one that is not known? */
void placement_find_over(const struct placement *p, struct placement_host *host);
void placement_keep_over(const struct placement *p, struct placement_host *host);
bool placement_over_known(const struct placement *p, const struct placement_host *host);

/* placement_glance.c: the node has changed; all nodes have, as amounts count otherwise. */
void placement_changed(struct placement *p, uint32_t node);
void placement_changed_all(struct placement *p);
void placement_needs_of(const struct placement_request *request, struct placement_needs *ret_needs);

/* placement_quick.c: a node as a brief; whether a request is one that it is enough for; whether it
 * fits there, as placement_may_fit() has it, and how good that is. */
void placement_brief(const struct placement *p, const struct placement_host *host,
		     struct placement_brief *ret_brief);
/* The first node of this scan that is the same to all policies but clustering; or this one. */
uint32_t placement_alike(struct placement *p, uint32_t node);
/* The part of a view that such a policy reads: without the classes' room on each GPU. */
void placement_view_brief(const struct placement *p, uint32_t node,
			  struct placement_view *ret_view);
bool placement_is_simple(const struct placement *p, const struct placement_request *request);
must_check bool placement_quick(const struct placement *p, uint32_t node,
				const struct placement_request *request,
				struct placement_assignment *ret_assignment, int32_t *ret_score);

/* placement_usual.c: the usual pods. placement_weigh() comes before any score. */
bool placement_stale(const struct placement *p);
void placement_weigh(struct placement *p);
size_t placement_weights_for(const struct placement *p, int model, int64_t cpu);
/* How many of the usual pods could come to each GPU, which are in whole steps. */
bool placement_in_steps(const struct placement *p, const struct placement_view *view);
void placement_chances(const struct placement *p, const struct placement_view *view,
		       uint32_t ret_chance[PLACEMENT_DEVICES]);
int64_t placement_waste(const struct placement *p, const struct placement_view *view);
uint64_t placement_usual_milli(const struct placement *p, const struct placement_usual *usual);

/* How many GPUs could take one pod of the usual kind; which, if there are any: 1 each. */
int placement_takers(const struct placement *p, const struct placement_view *view,
		     const struct placement_usual *usual, int32_t ret_takes[PLACEMENT_DEVICES]);

/* placement_lost.c and placement_worth.c: foresight. How much of a node no pod will use, in milli,
 * and what the rest is worth to the pods that come. */
void placement_find_lost(struct placement *p);
double placement_lost(const struct placement *p, const struct placement_view *view);

/* placement_rooms.c: how many of each ask would fit. Finds the asks of the usual pods; the room. */
void placement_find_asks(struct placement *p);
void placement_find_fades(struct placement *p);
uint32_t placement_ask_row(const struct placement_limits *limits);
void placement_find_rooms(const struct placement *p, const struct placement_view *view,
			  float *ret_rooms);

double placement_worth(const struct placement *p, const struct placement_view *view);
/* A pod's part in each of so many GPUs that it holds; and how much less it is as it stays so long.
 */
uint32_t placement_holder(uint32_t devices);
uint32_t placement_leaving(uint32_t holder, uint8_t stays);
bool placement_prices_due(const struct placement *p);
void placement_find_prices(struct placement *p);

/* placement_score.c: `view` is the node after, or with one more container on `device`. */
void placement_view_host(const struct placement *p, const struct placement_host *host,
			 struct placement_view *ret_view);
void placement_view_gpu(const struct placement *p, const struct placement_gpu *gpu,
			struct placement_view *view, uint32_t device);
void placement_base(const struct placement *p, struct placement_host *host,
		    const struct placement_request *request, struct placement_base *ret_base);
/* The same of a view that is there: all of `ret_base` but what the request needs of CPU. */
void placement_measure(const struct placement *p, const struct placement_request *request,
		       const struct placement_view *view, struct placement_measured *known,
		       struct placement_base *ret_base);
int32_t placement_score(const struct placement *p, const struct placement_host *host,
			const struct placement_base *base, const struct placement_view *view,
			const struct placement_request *request,
			const struct placement_assignment *assignment);
/* Whether GPUs are weighed by what the node would be worth after. */
bool placement_scores_gpus(const struct placement *p, const struct placement_request *request);
/* Or by what is left of them: the most of it, or the least. */
bool placement_wants_room(const struct placement *p, const struct placement_request *request);
/* The amount that a score gains by preferences, or loses by what is to be avoided. */
int32_t placement_preference(const struct placement_host *host,
			     const struct placement_request *request);
/* Does any container ask for a GPU? */
bool placement_asks_gpus(const struct placement_request *request);
/* How much the policy likes the container on this GPU of the node: larger is better. */
int32_t placement_score_gpu(const struct placement *p, const struct placement_host *host,
			    const struct placement_base *base, struct placement_view *view,
			    const struct placement_request *request,
			    const struct placement_container *want, uint32_t device);
