/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the placement machine: what its files share. Nobody outside core/placement* includes it.
 */
#pragma once

#include <string.h>

#include "core/placement/placement.h"

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
	PLACEMENT_MAKES = 64,
	/* How many choices are tried for the containers of a pod: on a node, in a decision, and on
	 * a node where a decision has come to its bound: what there is no doubt about is found. */
	PLACEMENT_TRIES = 4096,
	PLACEMENT_TRIES_ALL = 65536,
	PLACEMENT_TRIES_LEAST = 64, /* and of these so many in all as of the others */
	PLACEMENT_STEP = 10,	    /* milli: how finely GPUs are told apart */
	PLACEMENT_LOW_STEPS = 101,  /* of room for classes that are not overcommitted */
	PLACEMENT_TOP_STEPS = 201,  /* of room for the class that is overcommitted most */
	PLACEMENT_ODD_STEP = 255,   /* of room that is no whole step, or not the same for all */
	PLACEMENT_FADES = 65,	    /* eighths of a pod that foresight sees leave */
	PLACEMENT_LANES = 4,	    /* asks that are worked out together */
	PLACEMENT_PADDING = (PLACEMENT_DEVICES + 2) * PLACEMENT_LANES, /* asks that are none */
	PLACEMENT_HINTS = 256,
	PLACEMENT_SEEN = 4096,
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
	uint32_t leaving;   /* what these are less as some stay less than usual */
	uint16_t tenants;
	uint16_t exclusive; /* pods that want it alone, if only while they start: 0 or 1 */
	uint8_t mig_instances[PLACEMENT_PROFILES];
	uint16_t leftovers; /* parts and instances from when it was split another way */
	uint8_t over;	    /* bits: what is known to be promised beyond what there is */
	bool overlap;	    /* instances share memory slices */
};

/* What may be promised beyond what there is, of a GPU and of a host. */
enum {
	OVER_COMPUTE = 1,
	OVER_MEMORY = 2,
	OVER_TENANTS = 4,
	OVER_ALONE = 8,
	OVER_MIG = 16,
	OVER_CPU = 1,
	OVER_HOST_MEMORY = 2,
	OVER_GPU = 4, /* any of its GPUs */
};

/* What a node is by FGD's measure times the usual pods' number, or by foresight's: if `known`. */
struct placement_measured {
	int64_t waste;
	double worth;
	bool known;
};

struct placement_host {
	uint64_t memory_bytes, memory_used;
	int64_t cpu, cpu_used; /* milli */
	uint64_t changed;      /* number of the last change */
	struct placement_measured measured;
	int32_t first_pod;
	uint32_t pods;
	uint32_t kinds[PLACEMENT_KINDS]; /* pods by GPUs: [0] those with a part of one */
	uint32_t tags;
	uint8_t model, devices, over, make;
	bool present, cordoned;
	struct placement_gpu gpu[PLACEMENT_DEVICES];
};

/* A node at a glance: no more than this is left of it. */
struct placement_glance {
	int32_t cpu;			       /* milli */
	uint32_t host_memory, compute, memory; /* MiB, milli, MiB; the last two of one GPU */
	uint8_t model, devices;
	uint8_t wholes, empties; /* GPUs with a whole one's compute, and without tenants */
	uint8_t make;		 /* nodes of the same make are alike when empty; 0: like no other */
	bool mig, open, empty;
};

/* A node as the policies see it (placement_quick.c), where nothing but compute binds on its GPUs,
 * and that in whole steps: `known`. */
struct placement_brief {
	struct placement_sight {
		int32_t cpu, cpu_all; /* milli */
		uint16_t holders[PLACEMENT_DEVICES];
		uint8_t step[PLACEMENT_DEVICES];
		uint16_t empty, shut; /* bits */
		uint8_t model, devices;
		uint16_t zero; /* no byte is padding: it is compared as bytes */
	} sight;	       /* nodes that are the same in this score the same */
	uint16_t hash;	       /* of it */
	uint64_t host_memory;  /* left */
	bool known;
	struct placement_measured measured;
};

/* A node that this scan has looked at. */
struct placement_seen {
	uint64_t scan;
	uint32_t node;
};

/* A description that several nodes share. */
struct placement_make {
	struct placement_node is; /* but for its cordon */
	uint32_t nodes;
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
	uint32_t compute, holders, leaving;
	int32_t next;
	uint16_t tenants, profile /* its name; 0: not an instance */;
	uint8_t device, start;
	bool exclusive;
};

struct placement_pod {
	uint64_t host_memory;
	uint64_t until; /* the caller's time; or PLACEMENT_FOR_GOOD */
	int64_t cpu;
	uint32_t generation; /* odd: in use */
	int32_t node, next, previous, first_charge, priority;
	int32_t ends_at; /* its place among those that end */
	uint8_t class, kind;
	uint8_t out;	 /* taken off its host, on trial: not 0 */
	uint16_t budget; /* that its leaving counts for */
};

/* What a request comes to on a node: its phases folded into their maximum. */
struct placement_bill {
	uint64_t host_memory;
	int64_t cpu;
	uint64_t memory[PLACEMENT_DEVICES];
	uint32_t compute[PLACEMENT_DEVICES];
	uint16_t tenants[PLACEMENT_DEVICES]; /* but instances */
	bool exclusive[PLACEMENT_DEVICES];
	uint8_t instances;
	struct placement_instance {
		uint16_t profile; /* its name */
		uint8_t device, start;
	} instance[PLACEMENT_SLOTS];
};

struct placement_shape {
	struct placement_request request;
	uint64_t seen, used; /* change it has seen; when it was last used */
	int32_t *scores;     /* a row of limits.nodes, padded to whole blocks */
	int32_t *tops;	     /* the best of each block */
	struct placement_needs needs;
	bool live, simple;
	uint32_t cut; /* from this node on not all choices were tried for all that refuse; else
		       * UINT32_MAX */
};

/* Usual pods that ask for the same GPUs. */
struct placement_usual {
	uint32_t memory_mib, compute;
	uint16_t profile; /* != 0: MIG instances */
	uint8_t devices, class;
	bool exclusive;
	bool in_steps; /* a part of one GPU, its compute alone */
};

/* Those of them that ask for as much CPU are an ask. Those with a part of a GPU come first, then
 * those with one whole GPU, with two, and so on, each kind padded to whole lanes: with nobody's
 * asks, which are free. */
struct placement_asks {
	float *cpu;	 /* milli */
	float *per_cpu;	 /* 1 / cpu */
	float *free_cpu; /* so many fit whatever the CPU is */
	uint16_t *usual;
	float *fits; /* [step][ask]: how many of it fit into so much of a GPU */
	uint32_t size, parts;
	uint32_t wholes[PLACEMENT_DEVICES + 2]; /* [n]: where those with n GPUs begin */
	bool in_steps, whole_memory;
};

/* Four at a time, wherever they lie. */
typedef float placement_lanes
	__attribute__((vector_size(4 * PLACEMENT_LANES), aligned(4), may_alias));
typedef double placement_sums __attribute__((vector_size(8 * PLACEMENT_LANES)));

struct placement_learned {
	uint64_t models;
	int64_t cpu;
	uint32_t count;
	uint32_t kin; /* how many want the same GPUs of the same models, whatever their CPU */
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
	int32_t *ending; /* pods that end, a heap */
	uint32_t ending_size;
	int32_t *noted; /* on trial: pods that came; ~ those that went */
	uint32_t noted_size, turnover_before;
	bool on_trial;
	uint64_t *hashes; /* of the shapes' requests */
	int32_t *rows;
	uint32_t *changes; /* ring of nodes that changed, limits.nodes long */
	uint64_t *marks;   /* per node: the last refresh that looked at it */
	struct placement_glance *glances;
	struct placement_brief *briefs;
	struct placement_seen seen[PLACEMENT_SEEN]; /* by the hash of its brief */
	uint64_t scan;
	uint64_t change, refresh, use;
	int tries;	    /* that are left for this decision */
	uint32_t node_end;  /* one past the highest node ever added */
	uint32_t node_free; /* there is room for a node at no lower one */
	int32_t free_pod, free_charge;
	uint32_t row_size, blocks;

	struct placement_learned *learned; /* in ascending order of their CPU */
	struct placement_usual *usuals;
	int64_t *cpu_steps;   /* different CPU needs, ascending */
	float *remainders;    /* [low room][top room]: what the next pod on a GPU leaves useless */
	double cpu_per_milli; /* host CPU that a milli of GPU usually comes with */
	struct placement_asks asks;
	float *rooms_now; /* of a node, per ask */
	double *supply;	  /* [model][ask] */
	float *prices;	  /* likewise */
	float fade[PLACEMENT_FADES];
	uint32_t turnover; /* pods that came or went since the prices were found */
	/* In milli: how much of each model's GPUs there is and is used, and how much may be used
	 * before its price is an old one. */
	uint64_t model_milli[PLACEMENT_MODELS], model_used[PLACEMENT_MODELS];
	uint64_t model_most[PLACEMENT_MODELS];
	uint64_t models_short; /* bits: of which more is used than that */
	uint64_t pinned;       /* bits: models that some of the usual pods insist on */
	uint32_t *weights;     /* [model][CPU step + 1][usual]: pods that could come */
	/* Likewise, summed up in this order: parts by their size, then whole GPUs by their number;
	 * each of the two for itself. Where all usual pods are of these, and nothing is
	 * overcommitted: `summed`. */
	uint32_t *sums;
	uint16_t *order;
	uint16_t parts_upto[PLACEMENT_LOW_STEPS], wholes_upto[PLACEMENT_DEVICES + 1];
	bool summed;
	uint16_t step_hints[PLACEMENT_HINTS]; /* CPU steps that are no more than so many cores */
	uint32_t learned_size, usuals_size, steps_size;
	uint32_t usual_count; /* Σ counts, and of those that need a GPU */
	uint32_t usual_gpu_count;
	/* What follows from these is to be worked out anew: the usual pods, or the policy; nodes
	 * came or went; the largest may have. */
	bool usual_stale, nodes_stale;
	bool lost_stale; /* what core/placement/placement_lost.c works out from the usual pods */

	struct placement_profiles geometry[PLACEMENT_GEOMETRIES + 1];
	uint8_t geometries;
	int64_t most_cpu; /* of any node: what best-fit and dot-product normalise by */
	int64_t most_gpu;
	uint64_t most_gpu_mib;			      /* of one GPU */
	struct placement_make makes[PLACEMENT_MAKES]; /* [0] is none */
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
	uint32_t holders[PLACEMENT_DEVICES], leaving[PLACEMENT_DEVICES];
	uint32_t mig_taken[PLACEMENT_DEVICES];
	uint8_t geometry[PLACEMENT_DEVICES];
	uint8_t step[PLACEMENT_DEVICES]; /* of compute, without overcommit */
	bool open[PLACEMENT_DEVICES];	 /* pods without tolerations can have it, or will */
	bool shut[PLACEMENT_DEVICES];	 /* one pod has it alone */
	int32_t compute[PLACEMENT_CLASSES][PLACEMENT_DEVICES];	      /* milli; -1: closed to all */
	int32_t memory[PLACEMENT_CLASSES][PLACEMENT_DEVICES];	      /* MiB */
	uint8_t mig_instances[PLACEMENT_DEVICES][PLACEMENT_PROFILES]; /* where `geometry` is set */
};

/* A node before a request, as the policies remember it. */
struct placement_base {
	struct placement_view view;
	struct placement_measured measured;
	int64_t cpu_needed;
};

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

/* What is left of a host, and by how much more is promised than there is: negative. */
static inline int64_t placement_cpu_room(const struct placement_host *host)
{
	return host->cpu - host->cpu_used;
}

static inline int64_t placement_host_room(const struct placement_host *host)
{
	return (int64_t)host->memory_bytes - (int64_t)host->memory_used;
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

/* How many tenants it can have. Those without a bound are still counted in 16 bits. */
static inline uint16_t placement_slots(const struct placement_gpu *gpu)
{
	return gpu->is.slots ? gpu->is.slots : UINT16_MAX - 2 * PLACEMENT_SLOTS;
}

/* Nobody else can have a part of it, whatever is left. */
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

/* What the glance refuses the node refuses. */
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

/* placement_over.c: what is promised beyond what there is. Finds it, as the world changed; keeps
 * what still holds of it, as pods left; is anything beyond that is not known to be? */
void placement_find_over(const struct placement *p, struct placement_host *host);
void placement_keep_over(const struct placement *p, struct placement_host *host);
bool placement_over_known(const struct placement *p, const struct placement_host *host);

/* placement_glance.c: the node is not what it was; no node is, as amounts count otherwise. */
void placement_changed(struct placement *p, uint32_t node);
void placement_look_again(struct placement *p);
void placement_needs_of(const struct placement_request *request, struct placement_needs *ret_needs);

/* placement_quick.c: a node as a brief; whether a request is one that it is enough for; whether it
 * fits there, as placement_may_fit() has it, and how good that is. */
void placement_brief(const struct placement *p, const struct placement_host *host,
		     struct placement_brief *ret_brief);
/* The first node of this scan that is the same to all policies but clustering; or this one. */
uint32_t placement_alike(struct placement *p, uint32_t node);
/* What such a policy looks at: not what the classes can have of each GPU. */
void placement_view_brief(const struct placement *p, uint32_t node,
			  struct placement_view *ret_view);
bool placement_is_simple(const struct placement *p, const struct placement_request *request);
must_check bool placement_quick(const struct placement *p, uint32_t node,
				const struct placement_request *request,
				struct placement_assignment *ret_assignment, int32_t *ret_score);

/* placement_usual.c: the usual pods. placement_weigh() comes before whatever scores. */
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

/* placement_lost.c and placement_worth.c: foresight. What of a node nobody will use, in milli; what
 * the rest is worth to the pods that come. */
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
void placement_look(const struct placement *p, const struct placement_host *host,
		    struct placement_view *ret_view);
void placement_look_gpu(const struct placement *p, const struct placement_gpu *gpu,
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
/* What is added to a score for what is preferred and avoided of nodes. */
int32_t placement_preference(const struct placement_host *host,
			     const struct placement_request *request);
/* Does any container ask for a GPU? */
bool placement_asks_gpus(const struct placement_request *request);
/* How much the policy likes the container on this GPU of the node: larger is better. */
int32_t placement_score_gpu(const struct placement *p, const struct placement_host *host,
			    const struct placement_base *base, struct placement_view *view,
			    const struct placement_request *request,
			    const struct placement_container *want, uint32_t device);
