/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the placement machine: what its files share. Nobody outside core/placement* includes it.
 */
#pragma once

#include <string.h>

#include "core/placement.h"

/* A set of reasons is a word. */
#define BIT(name) (1u << PLACEMENT_NO_##name)

static inline enum placement_reason placement_first_reason(uint32_t refusals)
{
	return refusals ? (enum placement_reason)__builtin_ctz(refusals) : PLACEMENT_FITS;
}

enum {
	PLACEMENT_BLOCK = 64, /* nodes whose best score is remembered together */
	PLACEMENT_NONE = -1,
	PLACEMENT_STARTS = 32, /* where a MIG instance may begin */
	/* How many choices are tried for the containers of a pod: on a node, in a decision, and on
	 * a node where a decision has come to its bound: what there is no doubt about is found. */
	PLACEMENT_TRIES = 4096,
	PLACEMENT_TRIES_ALL = 65536,
	PLACEMENT_TRIES_LEAST = 64, /* and of these so many in all as of the others */
	PLACEMENT_STEP = 10,	    /* milli: how finely foresight tells GPUs apart */
	PLACEMENT_LOW_STEPS = 101,  /* of room for classes that are not overcommitted */
	PLACEMENT_TOP_STEPS = 201,  /* of room for the class that is overcommitted most */
	PLACEMENT_FADES = 65,	    /* eighths of a pod that foresight sees leave */
	PLACEMENT_KIND_NONE = PLACEMENT_DEVICES + 1, /* pods without a GPU */
	PLACEMENT_KINDS,
};

/* A GPU: what it is, and what is promised of it. */
struct placement_gpu {
	struct placement_device is;
	uint64_t memory[PLACEMENT_CLASSES];
	uint32_t compute[PLACEMENT_CLASSES];
	uint32_t mig_taken; /* memory slices, a bit each */
	uint32_t holders;   /* the pods' parts that hold it: placement_holder() */
	uint16_t tenants;
	uint16_t exclusive; /* pods that want it alone, if only while they start: 0 or 1 */
	uint8_t mig_instances[PLACEMENT_PROFILES];
};

struct placement_host {
	uint64_t memory_bytes, memory_used;
	int64_t cpu, cpu_used; /* milli */
	uint64_t changed;      /* number of the last change */
	int64_t waste;	       /* FGD's measure times the usual pods' number ... */
	double worth;	       /* ... and foresight's, if `waste_known` */
	int32_t first_pod;
	uint32_t pods;
	uint16_t kinds[PLACEMENT_KINDS]; /* pods by GPUs: [0] those with a part of one */
	uint8_t model, devices;
	bool present, cordoned, waste_known;
	struct placement_gpu gpu[PLACEMENT_DEVICES];
};

/* A node at a glance: no more than this is left of it. */
struct placement_glance {
	int32_t cpu;			       /* milli */
	uint32_t host_memory, compute, memory; /* MiB, milli, MiB; the last two of one GPU */
	uint8_t model, devices;
	uint8_t wholes, empties; /* GPUs with a whole one's compute, and without tenants */
	bool mig, open;
};

/* What a request needs at least, likewise. */
struct placement_needs {
	int32_t node, cpu;
	uint32_t host_memory, compute, memory;
	uint64_t models; /* bits; 0: any */
	uint8_t devices, wholes, empties;
	bool mig;
};

/* What a pod holds of one GPU, or one MIG instance of it. */
struct placement_charge {
	uint64_t memory;
	uint32_t compute, holders;
	int32_t next;
	uint16_t tenants;
	uint8_t device, profile /* index + 1 */, start;
	bool exclusive;
};

struct placement_pod {
	uint64_t host_memory;
	int64_t cpu;
	uint32_t generation; /* odd: in use */
	int32_t node, next, previous, first_charge, priority;
	uint8_t class, kind;
};

/* What a request comes to on a node: its phases folded into their maximum. */
struct placement_bill {
	uint64_t host_memory;
	int64_t cpu;
	uint64_t memory[PLACEMENT_DEVICES];
	uint32_t compute[PLACEMENT_DEVICES];
	uint16_t tenants[PLACEMENT_DEVICES];
	bool exclusive[PLACEMENT_DEVICES];
	uint8_t instances;
	struct placement_instance {
		uint8_t device, profile /* index */, start;
	} instance[PLACEMENT_SLOTS];
};

struct placement_shape {
	struct placement_request request;
	uint64_t seen, used; /* change it has seen; when it was last used */
	int32_t *scores;     /* a row of limits.nodes, padded to whole blocks */
	int32_t *tops;	     /* the best of each block */
	struct placement_needs needs;
	bool live;
	uint32_t cut; /* from this node on not all choices were tried for all that refuse; else
		       * UINT32_MAX */
};

/* Usual pods that ask for the same GPUs. */
struct placement_usual {
	uint32_t memory_mib, compute;
	uint16_t profile; /* != 0: MIG instances */
	uint8_t devices, class;
	bool exclusive;
};

/* Those of them that ask for as much CPU. */
struct placement_ask {
	float cpu;     /* milli */
	float per_cpu; /* 1 / cpu */
	uint16_t usual;
};

struct placement_learned {
	uint64_t models;
	int64_t cpu;
	uint32_t count;
	uint16_t usual, ask;
};

struct placement_profiles {
	uint8_t size;
	struct placement_profile profile[PLACEMENT_PROFILES];
};

struct placement {
	struct placement_limits limits;
	struct placement_config config;
	uint64_t factors[2][PLACEMENT_CLASSES]; /* compute, memory */
	uint8_t level[PLACEMENT_CLASSES];	/* the first class with the same factors */
	uint8_t low, top;			/* the levels with the least and the most */
	bool plain;				/* no overcommit */
	int32_t surplus;			/* milli that a GPU can be promised beyond itself */

	struct placement_host *hosts;
	struct placement_pod *pods;
	struct placement_charge *charges;
	struct placement_shape *shapes;
	uint64_t *hashes; /* of the shapes' requests */
	int32_t *rows;
	uint32_t *changes; /* ring of nodes that changed, limits.nodes long */
	uint64_t *marks;   /* per node: the last refresh that looked at it */
	struct placement_glance *glances;
	uint64_t change, refresh, use;
	int tries;	    /* that are left for this decision */
	uint32_t node_end;  /* one past the highest node ever added */
	uint32_t node_free; /* there is room for a node at no lower one */
	int32_t free_pod, free_charge;
	uint32_t row_size, blocks;

	struct placement_learned *learned;
	struct placement_usual *usuals;
	int64_t *cpu_steps;   /* different CPU needs, ascending */
	float *remainders;    /* [low room][top room]: what the next pod on a GPU leaves useless */
	double cpu_per_milli; /* host CPU that a milli of GPU usually comes with */
	struct placement_ask *asks; /* sorted by their usual */
	uint8_t *fits;		    /* [usual][step]: how many of it fit into so much of a GPU */
	float *rooms_now;	    /* of a node, per ask */
	double *supply, *prices;    /* [model][ask] */
	float fade[PLACEMENT_FADES];
	uint32_t asks_size;
	uint32_t whole_sizes; /* bit n: usual pods want n whole GPUs */
	uint32_t turnover;    /* pods that came or went since the prices were found */
	uint32_t *weights;    /* [model][CPU step + 1][usual]: pods that could come */
	uint32_t learned_size, usuals_size, steps_size;
	uint32_t usual_count; /* Σ counts, and of those that need a GPU */
	uint32_t usual_gpu_count;
	/* What follows from these is to be worked out anew: the usual pods, or the policy; nodes
	 * came or went; the largest may have. */
	bool usual_stale, nodes_stale;
	bool lost_stale; /* what core/placement_lost.c works out from the usual pods */

	struct placement_profiles geometry[PLACEMENT_GEOMETRIES + 1];
	uint8_t geometries;
	int64_t most_cpu; /* of any node: what best-fit and dot-product normalise by */
	int64_t most_gpu;
	uint64_t most_gpu_mib; /* of one GPU */
	struct placement_totals totals;
	uint32_t empties[PLACEMENT_DEVICES + 1]; /* nodes by GPUs without tenants */
};

/* A node as the policies see it: what is left, and per class (its level) what fits. */
struct placement_view {
	int64_t cpu, cpu_all;
	int32_t devices, model;
	uint64_t gpu_mib;		  /* of the largest GPU */
	int32_t total;			  /* of left */
	int32_t left[PLACEMENT_DEVICES];  /* milli: the smaller of compute and memory left */
	int32_t empty[PLACEMENT_DEVICES]; /* 1: no tenants */
	uint32_t holders[PLACEMENT_DEVICES];
	uint32_t mig_taken[PLACEMENT_DEVICES];
	uint8_t geometry[PLACEMENT_DEVICES];
	bool open[PLACEMENT_DEVICES]; /* pods without tolerations can have it, or will */
	bool shut[PLACEMENT_DEVICES]; /* one pod has it alone */
	int32_t compute[PLACEMENT_CLASSES][PLACEMENT_DEVICES]; /* milli; -1: closed to all */
	int32_t memory[PLACEMENT_CLASSES][PLACEMENT_DEVICES];  /* MiB */
};

/* A node before a request, as the policies remember it. */
struct placement_base {
	struct placement_view view;
	int64_t waste;
	double worth;
	int64_t cpu_needed;
};

/* The compute of all of its GPUs. */
static inline int64_t placement_milli(const struct placement_host *host)
{
	int64_t sum = 0;

	for (int i = 0; i < host->devices; i++)
		sum += host->gpu[i].is.compute_milli;
	return sum;
}

/* What FGD's weights take for each model: steps of CPU times usuals. */
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

/* Nobody else can have a part of it, whatever is left. */
static inline bool placement_closed(const struct placement_gpu *gpu)
{
	return gpu->exclusive || gpu->is.geometry ||
	       (gpu->is.slots && gpu->tenants >= gpu->is.slots);
}

/* GPUs without tenants. */
static inline int placement_empties(const struct placement_host *host)
{
	int n = 0;

	for (int i = 0; i < host->devices; i++)
		n += host->gpu[i].tenants == 0;
	return n;
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
int placement_find_starts(const struct placement *p, const struct placement_gpu *gpu, int profile,
			  uint8_t *ret_starts);
/* How many instances would fit into what is left of such a GPU. */
int placement_instances(const struct placement *p, uint8_t geometry, uint32_t taken, uint16_t name);
void placement_put(const struct placement *p, struct placement_gpu *gpu, uint8_t class,
		   const struct placement_container *want, int profile, uint8_t start);
void placement_take_back(const struct placement *p, struct placement_gpu *gpu, uint8_t class,
			 const struct placement_container *want, int profile, uint8_t start);
uint32_t placement_node_refusals(const struct placement_host *host, uint32_t node,
				 const struct placement_request *request);
void placement_host_needs(const struct placement_request *request, int64_t *ret_cpu,
			  uint64_t *ret_memory);
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
void placement_charge_bill(const struct placement *p, struct placement_host *host, uint8_t class,
			   const struct placement_bill *bill);
void placement_lift_pod(const struct placement *p, struct placement_host *host,
			const struct placement_pod *pod, bool back);
uint8_t placement_kind(const struct placement_request *request);
uint64_t placement_pod_name(const struct placement *p, int32_t at);

/* placement_glance.c: the node is not what it was; no node is, as amounts count otherwise. */
void placement_changed(struct placement *p, uint32_t node);
void placement_look_again(struct placement *p);
void placement_needs_of(const struct placement_request *request, struct placement_needs *ret_needs);
bool placement_may_fit(const struct placement *p, uint32_t node,
		       const struct placement_needs *needs);

/* placement_usual.c: the usual pods. placement_weigh() comes before whatever scores. */
bool placement_stale(const struct placement *p);
void placement_weigh(struct placement *p);
const uint32_t *placement_weights_for(const struct placement *p, int model, int64_t cpu);
int64_t placement_waste(const struct placement *p, const struct placement_view *view);
uint64_t placement_usual_milli(const struct placement *p, const struct placement_usual *usual);

/* Which GPUs could take one pod of the usual kind, a bit each. */
uint32_t placement_takers(const struct placement *p, const struct placement_view *view,
			  const struct placement_usual *usual);

/* placement_lost.c and placement_worth.c: foresight. What of a node nobody will use, in milli; what
 * the rest is worth to the pods that come. */
void placement_find_lost(struct placement *p);
double placement_lost(const struct placement *p, const struct placement_view *view);

void placement_find_fades(struct placement *p);
double placement_worth(const struct placement *p, const struct placement_view *view);
/* A pod's part in each of so many GPUs that it holds. */
uint32_t placement_holder(uint32_t devices);
bool placement_prices_due(const struct placement *p);
void placement_find_prices(struct placement *p);

/* placement_score.c: `view` is the node after, or with one more container on `device`. */
void placement_look(const struct placement *p, const struct placement_host *host,
		    struct placement_view *ret_view);
void placement_look_gpu(const struct placement *p, const struct placement_gpu *gpu,
			struct placement_view *view, uint32_t device);
void placement_base(const struct placement *p, struct placement_host *host,
		    const struct placement_request *request, struct placement_base *ret_base);
int32_t placement_score(const struct placement *p, const struct placement_host *host,
			const struct placement_base *base, const struct placement_view *view,
			const struct placement_request *request,
			const struct placement_assignment *assignment);
/* Whether the policy weighs GPUs by what the node would be worth after. */
bool placement_scores_gpus(const struct placement *p);
/* How much the policy likes the container on this GPU of the node: larger is better. */
int32_t placement_score_gpu(const struct placement *p, const struct placement_host *host,
			    const struct placement_base *base, struct placement_view *view,
			    const struct placement_request *request,
			    const struct placement_container *want, uint32_t device);
