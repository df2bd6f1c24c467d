/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the placement machine: its records of nodes, pods and requests. Only core/placement/
 * includes it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/placement/placement.h"

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
	uint8_t over;	    /* bits: known promises beyond capacity */
	bool overlap;	    /* instances share memory slices */
};

/* Kinds of promises beyond capacity, of a GPU and of a host. */
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

/* A node's value by FGD's measure times the usual pods' number, or by foresight's: if `known`. */
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

/* A node that this scan has scored. */
struct placement_seen {
	uint64_t scan;
	uint32_t node;
};

/* A description that several nodes share. */
struct placement_make {
	struct placement_node is; /* but for its cordon */
	uint32_t nodes;
};

/* The least that a request needs, likewise. */
struct placement_needs {
	int32_t node, cpu;
	uint32_t host_memory, compute, memory;
	uint64_t models; /* bits; 0: any */
	uint8_t devices, wholes, empties;
	bool mig;
};

/* A pod's part of one GPU, or one MIG instance of it. */
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

/* A request's amounts on a node: its phases folded into their maximum. */
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

/* Usual pods that ask for as much CPU, too, are an ask. Those with a part of a GPU come first, then
 * those with one whole GPU, with two, and so on, each kind padded to whole lanes: with asks of no
 * pod, which are free. */
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
	uint64_t *marks;   /* per node: the last refresh that scored it */
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
	/* The results of these are to be worked out anew: the usual pods, or the policy; nodes came
	 * or went; the largest may have. */
	bool usual_stale, nodes_stale;
	bool lost_stale; /* the results of core/placement/placement_lost.c from the usual pods */

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
