/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small random cluster for the laws of core/placement.h: what it consists of, whom it is asked
 * for, and an oracle. That keeps its own list of pods and works everything out anew, by trying all
 * sets of GPUs; it shares no code with the machine.
 */
#pragma once

#include "core/placement.h"

enum { NODES = 5, PODS = 40, GPUS = 5, PROFILES = 3 };

struct pod {
	uint64_t name;
	struct placement_request request;
	struct placement_assignment assignment;
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
	_Alignas(64) char memory[2][1 << 20];
};

extern struct world world;

extern const struct placement_profile world_geometry[PROFILES];

/* Another cluster, with nobody in it; METE_SEED repeats it. */
void world_given(void);

/* A machine that knows the nodes and the usual requests, and no pods. */
struct placement *world_fresh(void *memory, size_t size);

struct placement_request world_request(int most_containers);
bool world_chance(int percent);

/* The oracle, in placement_oracle.c. */
void expect_nothing_promised_twice(void);
void expect_a_binding_reason(uint32_t node, const struct placement_request *request);
