/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ptx/grid.h"

#include <string.h>

enum {
	WARP_TURN = 4096,     /* instructions, before another warp of the block runs */
	BLOCK_TURN = 1 << 17, /* and before another block does */
};

static const uint64_t SLOT_TAKEN = UINT64_MAX;

/* ---- making -------------------------------------------------------------------------------- */

static int check_shape(const struct ptx_kernel *k, const struct ptx_launch *launch)
{
	static const uint32_t grid_most[] = {INT32_MAX, 65535, 65535};
	static const uint32_t block_most[] = {1024, 1024, 64};
	uint64_t threads = 1;

	for (int d = 0; d < 3; d++) {
		if (!launch->grid[d] || launch->grid[d] > grid_most[d] || !launch->block[d] ||
		    launch->block[d] > block_most[d] || launch->cluster[d] > 1)
			return PTX_BAD_SHAPE;
		if (k->reqntid[0] && launch->block[d] != k->reqntid[d])
			return PTX_BAD_SHAPE;
		threads *= launch->block[d];
	}
	return threads > k->max_threads ? PTX_BAD_SHAPE : 0;
}

static void set_defaults(struct ptx_environment *env)
{
	if (!env->sm_count)
		env->sm_count = 4;
	if (!env->clock_mhz)
		env->clock_mhz = 1000;
	if (!env->resident_blocks)
		env->resident_blocks = 2 * env->sm_count;
	if (!env->stack_bytes)
		env->stack_bytes = 65536;
	if (!env->shared_bytes)
		env->shared_bytes = 233472;
}

static uint64_t param_value(const struct ptx_grid *g, uint32_t index)
{
	const struct ptx_param *p = &g->kernel->info.params[index];
	uint64_t v = 0;

	memcpy(&v, g->params + p->offset, p->size_bytes < 8 ? p->size_bytes : 8);
	return v;
}

static void add_costs(struct ptx_grid *g)
{
	for (const struct cost *c = g->kernel->costs; c; c = c->next) {
		uint64_t v = c->value;

		if (c->times_param && __builtin_mul_overflow(v, param_value(g, c->param), &v))
			v = UINT64_MAX;
		uint64_t *sum = c->bytes ? &g->report.cost_bytes : &g->report.cost_ns;

		if (__builtin_add_overflow(*sum, v, sum))
			*sum = UINT64_MAX;
		g->report.annotated = true;
	}
}

static int check_resources(struct ptx_grid *g)
{
	const struct ptx_launch *launch = &g->launch;
	const struct module_kernel *k = g->kernel;

	if ((uint64_t)k->info.shared_bytes + launch->dynamic_shared_bytes > g->env.shared_bytes)
		return PTX_NO_RESOURCES;
	if (launch->cooperative && g->blocks > g->env.resident_blocks)
		return PTX_NO_RESOURCES;
	return 0;
}

static void describe(struct ptx_grid *g)
{
	const struct module_kernel *k = g->kernel;
	const struct ptx_launch *launch = &g->launch;

	g->threads = launch->block[0] * launch->block[1] * launch->block[2];
	g->n_warps = (g->threads + LANES - 1) / LANES;
	g->blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
	g->shared_bytes = k->dynamic_offset + launch->dynamic_shared_bytes;
	g->stack_limit = g->env.stack_bytes + k->function->local_bytes + 64;
	g->n_slots =
		g->blocks < g->env.resident_blocks ? (uint32_t)g->blocks : g->env.resident_blocks;
	g->started_ns = g->env.now_ns ? g->env.now_ns(g->env.context) : 0;
}

int ptx_grid_new(const struct ptx_kernel *kernel, const struct ptx_launch *launch,
		 const struct ptx_environment *environment, struct ptx_grid **ret_grid)
{
	struct ptx_grid *g;
	int r = check_shape(kernel, launch);

	if (r)
		return r;
	if (!kernel->module->placed)
		return PTX_NOT_PLACED;
	if (launch->params_bytes < kernel->params_bytes ||
	    (kernel->params_bytes && !launch->params))
		return -EINVAL;
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->kernel = (const struct module_kernel *)kernel;
	g->module = kernel->module;
	g->env = *environment;
	g->launch = *launch;
	g->launch.params = NULL;
	set_defaults(&g->env);
	describe(g);
	r = check_resources(g);
	g->params = calloc(1, kernel->params_bytes + 64);
	g->slot_free_ns = calloc(g->n_slots, sizeof(*g->slot_free_ns));
	if (!r && (!g->params || !g->slot_free_ns))
		r = -ENOMEM;
	if (r) {
		ptx_grid_free(g);
		return r;
	}
	if (kernel->params_bytes)
		memcpy(g->params, launch->params, kernel->params_bytes);
	add_costs(g);
	*ret_grid = g;
	return 0;
}

/* ---- blocks -------------------------------------------------------------------------------- */

static void block_free(struct block *block)
{
	if (!block)
		return;
	for (uint32_t n = 0; block->warps && n < block->n_warps; n++)
		free(block->warps[n].w.local);
	free(block->warps);
	free(block->shared);
	free(block->arrived);
	free(block);
}

static struct block *block_new(struct ptx_grid *g)
{
	struct block *block = calloc(1, sizeof(*block));

	if (!block)
		return NULL;
	block->grid = g;
	block->n_warps = g->n_warps;
	block->warps = aligned_alloc(64, (g->n_warps * sizeof(*block->warps) + 63) & ~(size_t)63);
	if (block->warps)
		memset(block->warps, 0, g->n_warps * sizeof(*block->warps));
	/* A little more, so that no pointer is ever past the end of nothing. */
	block->shared = aligned_alloc(64, (g->shared_bytes + 127) & ~(size_t)63);
	block->arrived = calloc(g->n_warps, sizeof(*block->arrived));
	if (!block->warps || !block->shared || !block->arrived) {
		block_free(block);
		return NULL;
	}
	return block;
}

static uint32_t earliest_slot(const struct ptx_grid *g)
{
	uint32_t best = 0;

	for (uint32_t n = 1; n < g->n_slots; n++)
		if (g->slot_free_ns[n] < g->slot_free_ns[best])
			best = n;
	return best;
}

static bool warp_begin(struct block *block, uint32_t index)
{
	struct ptx_grid *g = block->grid;
	struct thread_warp *t = &block->warps[index];
	uint32_t left = g->threads - index * LANES;
	const struct function *f = g->kernel->function;
	struct frame *frame;

	t->index = index;
	t->alive = left >= LANES ? UINT32_MAX : (1u << left) - 1;
	t->turns = 0;
	t->rotate = false;
	t->w.grid = g;
	t->w.block = block;
	t->w.shared = block->shared;
	t->w.shared_bytes = g->shared_bytes;
	t->w.slept_ns = 0;
	t->w.carry = 0;
	t->w.faulted = false;
	t->w.base[BASE_CONSTANTS] = g->module->constants;
	t->w.base[BASE_SPECIAL] = t->special[0];
	special_fill(t);
	frame = frame_enter(t, NULL, f, &g->module->code[f->start], 0, t->alive);
	if (!frame)
		return false;
	t->n_splits = 1;
	t->splits[0] = (struct split){.lanes = t->alive, .pc = f->start, .frame = frame};
	return true;
}

static int block_begin(struct ptx_grid *g)
{
	struct block *block = g->free_blocks;
	uint64_t index = g->next_block;

	if (block)
		g->free_blocks = block->next;
	else
		block = block_new(g);
	if (!block)
		return -ENOMEM;
	block->next = g->resident;
	g->resident = block;
	g->n_resident++;
	g->next_block++;
	block->index = index;
	block->ctaid[0] = (uint32_t)(index % g->launch.grid[0]);
	block->ctaid[1] = (uint32_t)(index / g->launch.grid[0] % g->launch.grid[1]);
	block->ctaid[2] = (uint32_t)(index / g->launch.grid[0] / g->launch.grid[1]);
	block->slot = earliest_slot(g);
	block->begun_ns = g->slot_free_ns[block->slot];
	g->slot_free_ns[block->slot] = SLOT_TAKEN;
	block->next_warp = 0;
	memset(block->shared, 0, g->shared_bytes);
	memset(block->arrived, 0, g->n_warps * sizeof(*block->arrived));
	for (unsigned n = 0; n < BARRIERS; n++)
		block->barriers[n] = (struct barrier){.all = true};
	for (uint32_t n = 0; n < block->n_warps; n++)
		if (!warp_begin(block, n))
			return -ENOMEM;
	return 0;
}

static void block_end(struct ptx_grid *g, struct block *block)
{
	struct block **at = &g->resident;
	uint64_t slept = 0;

	for (uint32_t n = 0; n < block->n_warps; n++)
		if (block->warps[n].w.slept_ns > slept)
			slept = block->warps[n].w.slept_ns;
	g->slot_free_ns[block->slot] = block->begun_ns + slept;
	if (block->begun_ns + slept > g->report.sleep_ns)
		g->report.sleep_ns = block->begun_ns + slept;
	while (*at != block)
		at = &(*at)->next;
	*at = block->next;
	block->next = g->free_blocks;
	g->free_blocks = block;
	g->n_resident--;
	g->report.blocks_done++;
}

/* ---- running ------------------------------------------------------------------------------- */

struct turn {
	uint64_t executed;
	bool progress, alive;
};

static bool is_ready(const struct thread_warp *t)
{
	for (uint32_t n = 0; n < t->n_splits; n++)
		if (t->splits[n].state == SPLIT_READY)
			return true;
	return false;
}

/* Its warps in turn, until they have used up the budget, or none of them gets on. */
static struct turn run_block(struct block *block, uint64_t budget)
{
	struct turn turn = {0};
	uint32_t idle = 0;

	while (idle < block->n_warps) {
		struct thread_warp *t = &block->warps[block->next_warp];
		uint64_t left = budget - turn.executed;

		if (is_ready(t)) {
			turn.executed += run_warp(t, left < WARP_TURN ? (int64_t)left : WARP_TURN);
			if (t->w.faulted)
				return turn;
		} else {
			t->progress = false;
		}
		idle = t->progress ? 0 : idle + 1;
		turn.progress |= t->progress;
		/* The same warp again, as long as it gets on: its registers are in the cache. */
		if (!t->n_splits || !is_ready(t) || !t->progress || t->w.polled)
			block->next_warp = (block->next_warp + 1) % block->n_warps;
		if (turn.executed >= budget)
			break;
	}
	for (uint32_t n = 0; n < block->n_warps && !turn.alive; n++)
		turn.alive = block->warps[n].alive != 0;
	return turn;
}

static void deadlock(struct ptx_grid *g)
{
	for (uint32_t n = 0; n < g->resident->n_warps; n++) {
		struct thread_warp *t = &g->resident->warps[n];

		if (!t->n_splits)
			continue;
		mem_fault(&t->w, &g->module->code[t->splits[0].pc], PTX_FAULT_DEADLOCK, 0,
			  (unsigned)__builtin_ctz(t->splits[0].lanes), false);
		return;
	}
}

static int dead(struct ptx_grid *g)
{
	g->dead = true;
	return g->no_memory ? -ENOMEM : PTX_FAULTED;
}

static int fill(struct ptx_grid *g)
{
	while (g->n_resident < g->n_slots && g->next_block < g->blocks) {
		int r = block_begin(g);

		if (r)
			return r;
	}
	return 0;
}

static bool is_faulted(const struct block *block)
{
	for (uint32_t n = 0; n < block->n_warps; n++)
		if (block->warps[n].w.faulted)
			return true;
	return false;
}

int ptx_grid_run(struct ptx_grid *g, uint64_t budget)
{
	uint64_t used = 0, executed_in_round = 0;
	uint32_t without_progress = 0;

	if (g->dead)
		return dead(g);
	if (!budget)
		budget = 1;
	while (g->report.blocks_done < g->blocks) {
		struct block *block;
		struct turn turn;

		/* Blocks that are not done are resident after this. */
		if (fill(g) || !g->resident) {
			g->no_memory = true;
			return dead(g);
		}
		block = g->current ? g->current : g->resident;
		turn = run_block(block, budget - used < BLOCK_TURN ? budget - used : BLOCK_TURN);
		used += turn.executed;
		executed_in_round += turn.executed;
		g->current = block->next;
		if (is_faulted(block))
			return dead(g);
		if (!turn.alive) {
			block_end(g, block);
			without_progress = 0;
			continue;
		}
		without_progress = turn.progress ? 0 : without_progress + 1;
		if (!without_progress)
			executed_in_round = 0;
		if (without_progress >= g->n_resident) {
			if (!executed_in_round) {
				deadlock(g);
				return dead(g);
			}
			return PTX_WAITING;
		}
		if (used >= budget)
			return PTX_RUNNING;
	}
	return 0;
}

void ptx_grid_forget_ranges(struct ptx_grid *grid)
{
	grid->n_ranges = 0;
}

const struct ptx_report *ptx_grid_report(const struct ptx_grid *grid)
{
	return &grid->report;
}

static void free_frames(struct frame *f)
{
	while (f) {
		struct frame *next = f->next_free;

		free(f->registers);
		free(f);
		f = next;
	}
}

/* Frames in use are reached from the splits; each is given back when its last lane leaves. */
static void abandon(struct ptx_grid *g, struct block *block)
{
	for (uint32_t n = 0; n < block->n_warps; n++) {
		struct thread_warp *t = &block->warps[n];

		for (uint32_t k = 0; k < t->n_splits; k++) {
			struct split *s = &t->splits[k];

			for (struct frame *f = s->frame, *parent; f; f = parent) {
				parent = f->parent;
				frame_leave(g, f, s->lanes);
			}
		}
		t->n_splits = 0;
	}
}

void ptx_grid_free(struct ptx_grid *grid)
{
	if (!grid)
		return;
	for (struct block *b = grid->resident, *next; b; b = next) {
		next = b->next;
		abandon(grid, b);
		block_free(b);
	}
	for (struct block *b = grid->free_blocks, *next; b; b = next) {
		next = b->next;
		block_free(b);
	}
	free_frames(grid->free_frames);
	free(grid->slot_free_ns);
	free(grid->params);
	free(grid);
}
