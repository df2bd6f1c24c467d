/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Special registers. Time is the later of the environment's clock and the modelled time of the
 * warp, so that a kernel that sleeps until an instant gets there by sleeping.
 */
#include <string.h>

#include "sim/ptx/grid.h"

static uint64_t now_of(const struct warp *w)
{
	const struct ptx_grid *g = w->grid;
	uint64_t now = g->env.now_ns ? g->env.now_ns(g->env.context) : 0;
	uint64_t modelled = g->started_ns + w->block->begun_ns + w->slept_ns;

	return now > modelled ? now : modelled;
}

static uint64_t cycles(const struct warp *w)
{
	struct ptx_grid *g = w->grid;
	unsigned __int128 product = (unsigned __int128)now_of(w) * g->env.clock_mhz;

	/* It also counts what is executed and read, so that two readings differ. */
	return (uint64_t)(product / 1000) + g->report.warp_instructions + ++g->clock_readings;
}

uint64_t special_value(struct warp *w, unsigned special)
{
	switch (special) {
	case SPECIAL_CLOCK:
		return (uint32_t)cycles(w);
	case SPECIAL_CLOCK_HI:
		return cycles(w) >> 32;
	case SPECIAL_CLOCK64:
		return cycles(w);
	case SPECIAL_GLOBALTIMER:
		return now_of(w);
	case SPECIAL_GLOBALTIMER_LO:
		return (uint32_t)now_of(w);
	case SPECIAL_GLOBALTIMER_HI:
		return now_of(w) >> 32;
	case SPECIAL_GRIDID64:
		return w->grid->env.grid_id;
	default:
		return 0;
	}
}

static void put(struct thread_warp *t, unsigned special, unsigned lane, uint32_t value)
{
	memcpy(t->special[special] + lane * sizeof(value), &value, sizeof(value));
}

static void put_all(struct thread_warp *t, unsigned special, uint32_t value)
{
	for (unsigned l = 0; l < LANES; l++)
		put(t, special, l, value);
}

static void fill_lanes(struct thread_warp *t)
{
	const struct ptx_launch *launch = &t->w.grid->launch;

	for (unsigned l = 0; l < LANES; l++) {
		uint32_t thread = t->index * LANES + l;

		put(t, SPECIAL_TID_X, l, thread % launch->block[0]);
		put(t, SPECIAL_TID_Y, l, thread / launch->block[0] % launch->block[1]);
		put(t, SPECIAL_TID_Z, l, thread / launch->block[0] / launch->block[1]);
		put(t, SPECIAL_LANEID, l, l);
		put(t, SPECIAL_LANEMASK_EQ, l, 1u << l);
		put(t, SPECIAL_LANEMASK_LT, l, (1u << l) - 1);
		put(t, SPECIAL_LANEMASK_LE, l, (2u << l) - 1);
		put(t, SPECIAL_LANEMASK_GE, l, ~((1u << l) - 1));
		put(t, SPECIAL_LANEMASK_GT, l, ~((2u << l) - 1));
	}
}

/* At the beginning of a block. What is the same for all blocks is already there if it ran one. */
void special_fill(struct thread_warp *t)
{
	const struct ptx_grid *g = t->w.grid;
	const struct block *block = t->w.block;

	for (unsigned d = 0; d < 3; d++)
		put_all(t, SPECIAL_CTAID_X + d, block->ctaid[d]);
	put_all(t, SPECIAL_SMID, block->slot % g->env.sm_count);
	if (t->w.words)
		return;
	t->w.words = g->module->words;
	fill_lanes(t);
	for (unsigned d = 0; d < 3; d++) {
		put_all(t, SPECIAL_NTID_X + d, g->launch.block[d]);
		put_all(t, SPECIAL_NCTAID_X + d, g->launch.grid[d]);
	}
	put_all(t, SPECIAL_WARPID, t->index);
	put_all(t, SPECIAL_NWARPID, 64);
	put_all(t, SPECIAL_NSMID, g->env.sm_count);
	put_all(t, SPECIAL_DYNAMIC_SMEM, g->launch.dynamic_shared_bytes);
	put_all(t, SPECIAL_TOTAL_SMEM, g->shared_bytes);
	put_all(t, SPECIAL_ENVREG1, (uint32_t)(g->env.grid_workspace >> 32));
	put_all(t, SPECIAL_ENVREG2, (uint32_t)g->env.grid_workspace);
	put_all(t, SPECIAL_GRIDID, (uint32_t)g->env.grid_id);
	put_all(t, SPECIAL_ONE, 1);
}
