/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small random cluster for the laws of core/placement/placement.h: its nodes, the pods that come,
 * and an oracle. The oracle keeps its own list of pods and works everything out anew, by trying all
 * sets of GPUs; it shares no code with the machine.
 */
#pragma once

#include "core/placement/placement.h"

enum { NODES = 5, PODS = 40, GPUS = 5, PROFILES = 3, GEOMETRIES = 2, STEPS = 30 };

struct pod {
	bool adopted; /* booked, whether it fitted or not */
	uint64_t name;
	struct placement_request request;
	struct placement_assignment assignment;
	uint64_t until;
	int32_t priority;
	uint32_t node;
};

struct world {
	struct placement *p;
	struct placement_config config;
	struct placement_node node[NODES];
	struct pod pod[PODS];
	struct placement_request usual[4];
	uint32_t counts[4];
	int pods;
	uint64_t now;
	bool on_trial;
	bool changed[NODES]; /* under its pods: more may be promised than there is */
	_Alignas(64) char memory[2][1 << 20];
};

extern struct world world;

/* The profile of a name, as GPUs of a geometry (1, 2) offer it; NULL: they do not. */
const struct placement_profile *world_profile(int geometry, uint16_t name);

/* Another cluster, with nobody in it; METE_SEED repeats it. */
void world_given(void);

/* A machine that knows the nodes and the usual requests, and no pods. */
struct placement *world_fresh(void *memory, size_t size);

struct placement_node world_node(void);
/* Draws how much may be promised to which class. */
void world_factors(void);
struct placement_request world_request(int most_containers);
bool world_chance(int percent);

/* The amounts that a GPU has promised to the pods that are there. */
struct load {
	uint64_t memory[PLACEMENT_CLASSES], compute[PLACEMENT_CLASSES];
	uint32_t tenants, exclusive, pods, slices, instances[PROFILES];
	uint32_t leftovers; /* from when the GPU was split another way */
	bool overlap;
};

/* The oracle, in placement_oracle.c. */
struct load oracle_load(uint32_t node, int gpu);
/* The rest of `capacity` for a class. */
int64_t oracle_room(uint64_t capacity, const uint64_t *used, bool memory, int class);
/* Does a container run in a phase: beside init container `phase`, or (-1) after all of them? */
bool oracle_runs(const struct placement_request *request, int container, int phase);
/* The amounts of the node, and not of its GPUs, that are in the way, as bits. */
uint32_t oracle_node(uint32_t node, const struct placement_request *request);
/* The slices of an instance on a GPU; 0: no such one is offered there. */
uint32_t oracle_slices(const struct placement_device *gpu, uint16_t name, uint8_t start);
/* But on nodes that changed: there, the excess is shown as such. */
void expect_nothing_promised_twice(void);
void expect_a_binding_reason(uint32_t node, const struct placement_request *request);

/* Does the pod fit, by trying all that its containers may be given? In placement_brute.c. */
bool brute_fits(uint32_t node, const struct placement_request *request);
