/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One warp: which of its splits runs, and the loop over its instructions.
 */
#include <string.h>

#include "sim/ptx/grid.h"

enum {
	SPLIT_FUEL = 1 << 20, /* of a split while others of its warp wait for it */
	POLL_COST = 128,      /* an access that may wait for another thread */
	SLEEP_MOST_NS = 1000000,
};

/* What the loop returns with. */
enum went { WENT_ON, CAME_APART };

static void split_remove(struct thread_warp *t, struct split *s)
{
	*s = t->splits[--t->n_splits];
}

/* The rest of the lanes goes on at `pc`. There is always room: each split has a lane. */
static void split_off(struct thread_warp *t, const struct split *s, uint32_t lanes, uint32_t pc)
{
	struct split *other = &t->splits[t->n_splits++];

	*other = (struct split){.lanes = lanes, .pc = pc, .frame = s->frame, .turn = s->turn};
}

static void merge(struct thread_warp *t)
{
	for (uint32_t a = 0; a < t->n_splits; a++) {
		struct split *first = &t->splits[a];

		for (uint32_t b = a + 1; b < t->n_splits;) {
			struct split *s = &t->splits[b];

			if (s->state != SPLIT_READY || first->state != SPLIT_READY ||
			    s->pc != first->pc || s->frame != first->frame ||
			    s->released != first->released) {
				b++;
				continue;
			}
			first->lanes |= s->lanes;
			split_remove(t, s);
		}
	}
}

static bool runs_before(const struct split *a, const struct split *b)
{
	if (a->frame->depth != b->frame->depth)
		return a->frame->depth > b->frame->depth;
	return a->pc < b->pc;
}

static struct split *pick(struct thread_warp *t)
{
	struct split *best = NULL;

	if (t->n_splits > 1)
		merge(t);
	for (uint32_t n = 0; n < t->n_splits; n++) {
		struct split *s = &t->splits[n];

		if (s->state != SPLIT_READY)
			continue;
		if (!best || (t->rotate ? s->turn < best->turn : runs_before(s, best)))
			best = s;
	}
	t->rotate = false;
	if (best)
		best->turn = ++t->turns;
	return best;
}

/* The nearest address ahead where another split of the same call waits to be joined. */
static uint32_t meeting_point(const struct thread_warp *t, const struct split *s)
{
	uint32_t at = UINT32_MAX;

	for (uint32_t n = 0; n < t->n_splits; n++) {
		const struct split *other = &t->splits[n];

		if (other != s && other->state == SPLIT_READY && other->frame == s->frame &&
		    other->pc > s->pc && other->pc < at)
			at = other->pc;
	}
	return at;
}

/* ---- control ------------------------------------------------------------------------------- */

static void check_sync(struct thread_warp *t)
{
	uint32_t waiting = 0;

	for (uint32_t n = 0; n < t->n_splits; n++)
		if (t->splits[n].state == SPLIT_AT_SYNC)
			waiting |= t->splits[n].lanes;
	for (uint32_t n = 0; n < t->n_splits; n++) {
		struct split *s = &t->splits[n];

		if (s->state != SPLIT_AT_SYNC || s->waits_for & t->alive & ~waiting)
			continue;
		s->state = SPLIT_READY;
		s->released = true;
	}
}

static void leave(struct thread_warp *t, struct split *s)
{
	uint32_t lanes = s->lanes;

	for (struct frame *f = s->frame, *parent; f; f = parent) {
		parent = f->parent;
		frame_leave(t->w.grid, f, lanes);
	}
	t->alive &= ~lanes;
	t->progress = true;
	split_remove(t, s);
	check_sync(t);
	barrier_recheck(t->w.block);
}

static void go_back(struct thread_warp *t, struct split *s)
{
	struct frame *callee = s->frame;

	if (!callee->parent) {
		leave(t, s);
		return;
	}
	frame_results(t, callee, s->lanes);
	s->frame = callee->parent;
	s->pc = callee->return_pc;
	frame_leave(t->w.grid, callee, s->lanes);
}

/* The lanes that want what the first one wants; the others come back to this instruction. */
static void same_as_first(struct thread_warp *t, struct split *s, const uint64_t *wanted)
{
	uint64_t first = wanted[__builtin_ctz(s->lanes)];
	uint32_t same = 0;

	for (uint32_t left = s->lanes; left; left &= left - 1) {
		int l = __builtin_ctz(left);

		same |= (uint32_t)(wanted[l] == first) << l;
	}
	if (same != s->lanes) {
		split_off(t, s, s->lanes & ~same, s->pc);
		s->lanes = same;
	}
}

static void call(struct thread_warp *t, struct split *s, const struct insn *i)
{
	const struct ptx_module *m = t->w.grid->module;
	const struct function *f;
	struct frame *callee;

	if (i->argument) {
		const uint64_t *address = operand(&t->w, i->a);

		same_as_first(t, s, address);
		f = module_function_at(m, address[__builtin_ctz(s->lanes)]);
		if (f)
			f = symbol_final(f->symbol)->function;
		if (!f || f->is_entry || (!f->defined && !f->host)) {
			mem_fault(&t->w, i, PTX_FAULT_INVALID_PC, address[__builtin_ctz(s->lanes)],
				  (unsigned)__builtin_ctz(s->lanes), false);
			return;
		}
	} else {
		f = m->functions[i->imm];
	}
	if (f->host) {
		t->w.mask = s->lanes;
		t->progress = true;
		host_call(&t->w, i, f->host);
		s->pc++;
		return;
	}
	callee = frame_enter(t, s->frame, f, i, s->pc + 1, s->lanes);
	if (!callee)
		return;
	frame_arguments(t, s->frame, callee, s->lanes);
	s->frame = callee;
	s->pc = f->start;
}

static void branch_indexed(struct thread_warp *t, struct split *s, const struct insn *i)
{
	const uint32_t *index = operand(&t->w, i->a);
	uint64_t targets[LANES];

	for (uint32_t l = 0; l < LANES; l++) {
		uint32_t n = index[l];

		/* Out of the list is undefined; the last entry keeps it inside. */
		if (n >= (uint64_t)i->imm)
			n = (uint32_t)i->imm - 1;
		targets[l] = t->w.words[i->extra + n];
	}
	same_as_first(t, s, targets);
	s->pc = (uint32_t)targets[__builtin_ctz(s->lanes)];
}

static void sleep_some(struct thread_warp *t, struct split *s, const struct insn *i)
{
	const uint32_t *ns = operand(&t->w, i->a);
	uint32_t longest = 0;

	for (uint32_t left = s->lanes; left; left &= left - 1) {
		uint32_t v = ns[__builtin_ctz(left)];

		longest = v > longest ? v : longest;
	}
	t->w.slept_ns += longest < SLEEP_MOST_NS ? longest : SLEEP_MOST_NS;
	t->yields = true;
	s->pc++;
}

/* The lanes of `lanes` that named the same members as its first one. */
static uint32_t same_members(const uint32_t *members, uint32_t lanes)
{
	uint32_t first = members[__builtin_ctz(lanes)], same = 0;

	for (uint32_t left = lanes; left; left &= left - 1)
		same |= (uint32_t)(members[__builtin_ctz(left)] == first) << __builtin_ctz(left);
	return same;
}

/* Lanes that stand here together may name different members (tiles of a cooperative group do):
 * each group executes by itself, and waits by itself if some of it are elsewhere. */
static void meet(struct thread_warp *t, struct split *s, const struct insn *i)
{
	const uint32_t *members = operand(&t->w, i->f);
	uint32_t group, ready = 0;

	for (uint32_t left = s->lanes; left; left &= ~group) {
		group = same_members(members, left);
		if (s->released || !(members[__builtin_ctz(left)] & t->alive & ~s->lanes))
			ready |= group;
	}
	if (!ready) {
		group = same_members(members, s->lanes);
		if (group != s->lanes)
			split_off(t, s, s->lanes & ~group, s->pc);
		s->lanes = group;
		s->state = SPLIT_AT_SYNC;
		s->waits_for = members[__builtin_ctz(group)];
		check_sync(t);
		return;
	}
	if (ready != s->lanes) {
		split_off(t, s, s->lanes & ~ready, s->pc);
		s->lanes = ready;
	}
	s->released = false;
	for (uint32_t left = ready; left; left &= ~group) {
		group = same_members(members, left);
		t->w.mask = group;
		i->run(&t->w, i);
	}
	s->pc++;
}

/* Instructions that change more than registers and memory, for the lanes whose guard holds. */
static void control(struct thread_warp *t, struct split *s, const struct insn *i, uint32_t lanes)
{
	if (lanes != s->lanes) {
		split_off(t, s, s->lanes & ~lanes, s->pc + 1);
		s->lanes = lanes;
	}
	switch ((enum code_kind)i->kind) {
	case KIND_BRX:
		branch_indexed(t, s, i);
		break;
	case KIND_CALL:
		call(t, s, i);
		break;
	case KIND_RET:
		go_back(t, s);
		break;
	case KIND_EXIT:
		leave(t, s);
		break;
	case KIND_SLEEP:
		sleep_some(t, s, i);
		break;
	case KIND_BARRIER:
		barrier_arrive(t, s, i);
		break;
	case KIND_SYNC:
		meet(t, s, i);
		break;
	case KIND_TRAP:
	case KIND_PLAIN:
	case KIND_MEMORY:
	case KIND_BRANCH:
	default:
		mem_fault(&t->w, i, PTX_FAULT_TRAP, 0, (unsigned)__builtin_ctz(lanes), false);
		break;
	}
}

/* ---- the loop ------------------------------------------------------------------------------ */

/* Returns the executed instructions; *fuel becomes what is left. */
static uint64_t run_split(struct thread_warp *t, struct split *s, int64_t *fuel)
{
	struct warp *w = &t->w;
	const struct insn *code = w->grid->module->code;
	uint32_t pc = s->pc, lanes = s->lanes, limit = meeting_point(t, s);
	int64_t left = *fuel;
	uint64_t executed = 0;

	w->base[BASE_REGISTERS] = s->frame->registers;
	w->local_base = s->frame->local_base;
	w->active = lanes;
	while (left > 0 && pc < limit) {
		const struct insn *i = &code[pc];
		uint32_t mask = lanes;

		if (i->guard != OPERAND_NONE)
			mask &= predicate(w, i->guard, i->guard_not);
		executed++;
		left--;
		if (likely(i->kind == KIND_PLAIN)) {
			w->mask = mask;
			pc++;
			if (mask)
				i->run(w, i);
		} else if (i->kind == KIND_MEMORY) {
			w->mask = mask;
			if (mask)
				i->run(w, i);
			if (unlikely(w->faulted))
				break;
			if (i->aux & AUX_POLL)
				left -= POLL_COST;
			pc++;
		} else if (mask == 0) {
			pc++;
		} else if (i->kind == KIND_BRANCH) {
			if (mask == lanes) {
				pc = (uint32_t)i->imm;
				continue;
			}
			s->pc = pc + 1;
			s->lanes = lanes & ~mask;
			split_off(t, s, mask, (uint32_t)i->imm);
			*fuel = left;
			goto apart;
		} else {
			s->pc = pc;
			w->mask = mask;
			control(t, s, i, mask);
			*fuel = left;
			goto apart;
		}
	}
	s->pc = pc;
	*fuel = left;
apart:
	w->grid->report.thread_instructions += executed * (uint64_t)__builtin_popcount(lanes);
	w->grid->report.warp_instructions += executed;
	return executed;
}

uint64_t run_warp(struct thread_warp *t, int64_t fuel)
{
	uint64_t executed = 0;

	t->progress = t->yields = t->w.polled = t->w.stored = false;
	while (fuel > 0 && !t->w.faulted && !t->yields) {
		struct split *s = pick(t);
		int64_t share = fuel;

		if (!s)
			break;
		executed += run_split(t, s, &share);
		fuel = share;
		/* A split that has used up a turn by polling may wait for the others. */
		if (fuel <= 0 && t->n_splits > 1 && t->w.polled)
			t->rotate = true;
	}
	if (t->w.stored || (executed && !t->w.polled && !t->yields))
		t->progress = true;
	return executed;
}
