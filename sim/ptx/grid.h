/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A running grid: its blocks, their warps, and how a warp's lanes have come apart.
 *
 * Lanes that are at the same instruction of the same call are a split and run together. A warp
 * runs the split in the deepest call, and there the one at the lowest address: code is laid out so
 * that lanes that are behind catch up, and splits that meet become one. A split that polls gives
 * way to the others after a while, so that a lane may wait for another lane of its warp.
 */
#pragma once

#include "sim/ptx/code.h"
#include "sim/ptx/module.h"

/* The last barrier is that of a cluster, which is one block. */
enum { RANGES = 4, BARRIERS = 17 };

enum split_state { SPLIT_READY, SPLIT_AT_BARRIER, SPLIT_AT_SYNC };

/* The registers of one call. */
struct frame {
	struct frame *parent, *next_free;
	const struct function *function;
	const struct insn *call; /* that made it; NULL for the kernel's */
	uint32_t return_pc;
	uint32_t lanes; /* that are in it or in calls from it */
	uint32_t depth, local_base, stack_used;
	size_t capacity;
	uint8_t *registers;
};

struct split {
	uint32_t lanes, pc;
	struct frame *frame;
	uint8_t state; /* enum split_state */
	uint8_t barrier;
	bool released;	    /* has waited for its lanes and may execute */
	uint32_t waits_for; /* lanes */
	uint64_t turn;	    /* when it last ran, in turns of the warp */
};

struct thread_warp {
	struct warp w; /* first: the functions of ptx.def get this */
	struct split splits[LANES];
	uint32_t n_splits;
	uint32_t alive, index;
	uint64_t turns;
	bool rotate;   /* the split that ran last polls: others first */
	bool yields;   /* sleeps: other warps first */
	bool progress; /* in this turn */
	uint64_t local_capacity;
	uint8_t special[SPECIAL_STORED][LANES * sizeof(uint32_t)];
};

struct barrier {
	uint32_t expected;	  /* threads; 0: all of the block */
	uint32_t arrived;	  /* threads that will not wait */
	uint32_t count, all, any; /* of bar.red */
};

struct block {
	struct ptx_grid *grid;
	struct block *next;
	uint64_t index;
	uint32_t n_warps, warps_left;
	struct thread_warp *warps;
	uint8_t *shared;
	uint32_t (*arrived)[BARRIERS]; /* of each warp: lanes that arrived without waiting */
	struct barrier barriers[BARRIERS];
	uint64_t begun_ns; /* modelled: when its slot became free */
	uint32_t ctaid[3], slot, next_warp;
};

struct ptx_grid {
	const struct module_kernel *kernel;
	const struct ptx_module *module;
	struct ptx_environment env;
	struct ptx_launch launch;
	struct ptx_report report;
	struct ptx_range ranges[RANGES];
	uint32_t n_ranges;
	uint8_t *params;
	uint32_t shared_bytes; /* of a block, all */
	uint32_t threads, n_warps;
	uint64_t blocks, next_block, started_ns;
	struct block *resident, *free_blocks, *current;
	uint64_t *slot_free_ns; /* modelled; SLOT_TAKEN while a block is in it */
	uint32_t n_slots, n_resident;
	struct frame *free_frames;
	uint32_t stack_limit;
	uint64_t clock_readings;
	bool no_memory, dead;
};

static inline struct thread_warp *thread_warp_of(struct warp *w)
{
	return (struct thread_warp *)w;
}

/* mem.c: the slow ways, and what the others need. All report a fault through mem_fault(). */
void mem_fault(struct warp *w, const struct insn *i, enum ptx_fault kind, uint64_t address,
	       unsigned lane, bool write);
/* A device address, or a generic one that is anything else; NULL after a fault. */
uint8_t *mem_global(struct warp *w, const struct insn *i, unsigned lane, uint64_t address,
		    unsigned bytes, bool write);
uint8_t *mem_generic(struct warp *w, const struct insn *i, unsigned lane, uint64_t address,
		     unsigned bytes, bool write, bool *ret_local);
uint8_t *mem_local(struct warp *w, const struct insn *i, unsigned lane, uint64_t offset,
		   unsigned bytes, bool write);
/* So much for each lane, from 0; false without memory. Never called while addresses are held. */
bool mem_local_reserve(struct thread_warp *t, uint32_t bytes);

/* frame.c */
struct frame *frame_enter(struct thread_warp *t, struct frame *parent, const struct function *f,
			  const struct insn *call, uint32_t return_pc, uint32_t lanes);
void frame_leave(struct ptx_grid *grid, struct frame *frame, uint32_t lanes);
void frame_arguments(struct thread_warp *t, struct frame *caller, struct frame *callee,
		     uint32_t lanes);
void frame_results(struct thread_warp *t, struct frame *callee, uint32_t lanes);

/* run.c: one warp until it has used its fuel, waits, sleeps, is done or has faulted. Returns how
 * many instructions it has executed. */
uint64_t run_warp(struct thread_warp *t, int64_t fuel);

/* barrier.c */
void barrier_arrive(struct thread_warp *t, struct split *s, const struct insn *i);
void barrier_recheck(struct block *block); /* after lanes have exited */

/* Where a lane's local memory is: 8 bytes of each lane in turn. */
static inline size_t mem_local_at(uint32_t offset, unsigned lane)
{
	return (size_t)(offset & ~7u) * LANES + lane * 8 + (offset & 7);
}

/* special.c */
uint64_t special_value(struct warp *w, unsigned special);
void special_fill(struct thread_warp *t);

/* host.c: functions that the device's library provides. */
struct host_function;
const struct host_function *host_find(const char *name);
void host_call(struct warp *w, const struct insn *i, const struct host_function *function);
