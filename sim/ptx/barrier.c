/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Barriers of a block. Threads are counted, as since capability 7.0; the lanes that a warp does not
 * have, or that have exited, arrive with its first living one, so that counts in whole warps hold.
 */
#include <string.h>

#include "sim/ptx/grid.h"

static bool is_complete(const struct block *block, const struct barrier *b, unsigned id)
{
	if (b->expected)
		return b->arrived >= b->expected;
	for (uint32_t n = 0; n < block->n_warps; n++)
		if (block->warps[n].alive & ~block->arrived[n][id])
			return false;
	return true;
}

static void deliver(struct thread_warp *t, struct split *s, const struct barrier *b)
{
	const struct insn *i = &t->w.grid->module->code[s->pc];

	t->w.base[BASE_REGISTERS] = s->frame->registers;
	t->w.mask = s->lanes;
	switch ((enum code_barrier)i->argument) {
	case BAR_POPC:
		for (uint32_t left = s->lanes; left; left &= left - 1)
			((uint32_t *)operand(&t->w, i->d))[__builtin_ctz(left)] = b->count;
		break;
	case BAR_AND:
		set_predicate(&t->w, i->d, b->all ? UINT32_MAX : 0);
		break;
	case BAR_OR:
		set_predicate(&t->w, i->d, b->any ? UINT32_MAX : 0);
		break;
	case BAR_SYNC:
	case BAR_ARRIVE:
	case BAR_CLUSTER:
	default:
		break;
	}
}

static void release(struct block *block, unsigned id)
{
	struct barrier *b = &block->barriers[id];

	for (uint32_t n = 0; n < block->n_warps; n++) {
		struct thread_warp *t = &block->warps[n];

		block->arrived[n][id] = 0;
		for (uint32_t k = 0; k < t->n_splits; k++) {
			struct split *s = &t->splits[k];

			if (s->state != SPLIT_AT_BARRIER || s->barrier != id)
				continue;
			deliver(t, s, b);
			s->state = SPLIT_READY;
			s->pc++;
			t->progress = true;
		}
	}
	*b = (struct barrier){.all = true};
}

void barrier_recheck(struct block *block)
{
	for (unsigned id = 0; id < BARRIERS; id++) {
		bool waited = false;

		for (uint32_t n = 0; n < block->n_warps && !waited; n++)
			waited = block->arrived[n][id] != 0;
		if (waited && is_complete(block, &block->barriers[id], id))
			release(block, id);
	}
}

static uint32_t first_of(struct thread_warp *t, uint32_t o, uint32_t lanes)
{
	return ((const uint32_t *)operand(&t->w, o))[__builtin_ctz(lanes)];
}

void barrier_arrive(struct thread_warp *t, struct split *s, const struct insn *i)
{
	struct block *block = t->w.block;
	uint32_t lanes = s->lanes, id = BARRIERS - 1, padding = 0;
	struct barrier *b;

	if (i->argument != BAR_CLUSTER)
		id = first_of(t, i->a, lanes);
	if (id >= BARRIERS || (id == BARRIERS - 1 && i->argument != BAR_CLUSTER)) {
		mem_fault(&t->w, i, PTX_FAULT_TRAP, id, (unsigned)__builtin_ctz(lanes), false);
		return;
	}
	b = &block->barriers[id];
	if (i->b != OPERAND_NONE)
		b->expected = first_of(t, i->b, lanes);
	if (lanes & t->alive & (0 - t->alive))
		padding = LANES - (uint32_t)__builtin_popcount(t->alive);
	b->arrived += (uint32_t)__builtin_popcount(lanes) + padding;
	block->arrived[t->index][id] |= lanes;
	if (i->c != OPERAND_NONE) {
		uint32_t p = predicate(&t->w, i->c, i->aux & AUX_NOT_C) & lanes;

		b->count += (uint32_t)__builtin_popcount(p);
		b->all = b->all && p == lanes;
		b->any = b->any || p;
	}
	if (i->argument == BAR_ARRIVE) {
		s->pc++;
	} else {
		s->state = SPLIT_AT_BARRIER;
		s->barrier = (uint8_t)id;
	}
	if (is_complete(block, b, id))
		release(block, id);
}
