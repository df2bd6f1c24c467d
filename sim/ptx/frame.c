/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls: registers of their own for each, and arguments and results between them.
 */
#include <string.h>

#include "sim/ptx/grid.h"

enum { CALL_BYTES = 32, REUSE_TRIES = 8 };

static struct frame *reused(struct ptx_grid *g, size_t bytes)
{
	struct frame **at = &g->free_frames;

	for (int n = 0; n < REUSE_TRIES && *at; n++, at = &(*at)->next_free) {
		struct frame *f = *at;

		if (f->capacity < bytes)
			continue;
		*at = f->next_free;
		return f;
	}
	return NULL;
}

static struct frame *fresh(size_t bytes)
{
	struct frame *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->capacity = (bytes + 63) & ~(size_t)63;
	f->registers = aligned_alloc(64, f->capacity ? f->capacity : 64);
	if (!f->registers) {
		free(f);
		return NULL;
	}
	return f;
}

/* NULL: the grid has no memory, or its stack has an end. */
struct frame *frame_enter(struct thread_warp *t, struct frame *parent, const struct function *f,
			  const struct insn *call, uint32_t return_pc, uint32_t lanes)
{
	struct ptx_grid *g = t->w.grid;
	uint32_t local_base = parent ? parent->stack_used : 0;
	uint64_t used = (uint64_t)local_base + f->local_bytes + (parent ? CALL_BYTES : 0);
	struct frame *frame;

	used = (used + 15) & ~15ull;
	if (used > g->stack_limit) {
		mem_fault(&t->w, call, PTX_FAULT_STACK, used, (unsigned)__builtin_ctz(lanes),
			  false);
		return NULL;
	}
	frame = reused(g, f->frame_bytes);
	if (!frame)
		frame = fresh(f->frame_bytes);
	if (!frame || !mem_local_reserve(t, local_base + f->local_bytes)) {
		if (frame) {
			frame->next_free = g->free_frames;
			g->free_frames = frame;
		}
		g->no_memory = t->w.faulted = true;
		return NULL;
	}
	memset(frame->registers, 0, f->frame_bytes);
	frame->parent = parent;
	frame->function = f;
	frame->call = call;
	frame->return_pc = return_pc;
	frame->lanes = lanes;
	frame->depth = parent ? parent->depth + 1 : 0;
	frame->local_base = local_base;
	frame->stack_used = (uint32_t)used;
	return frame;
}

/* These lanes are no longer in it; the last one frees it. Not its parents. */
void frame_leave(struct ptx_grid *grid, struct frame *frame, uint32_t lanes)
{
	frame->lanes &= ~lanes;
	if (frame->lanes)
		return;
	frame->next_free = grid->free_frames;
	grid->free_frames = frame;
}

/* A value of a call on one of its sides: registers or local memory of a frame. */
struct side {
	struct frame *frame;
	bool in_register;
	uint32_t where, bytes;
};

static void copy_lane(struct thread_warp *t, const struct side *to, const struct side *from,
		      unsigned lane)
{
	uint32_t bytes = to->bytes < from->bytes ? to->bytes : from->bytes;

	for (uint32_t at = 0; at < bytes; at += 8) {
		uint32_t n = bytes - at < 8 ? bytes - at : 8;
		uint64_t v = 0;

		if (from->in_register) {
			struct warp w = t->w;

			w.base[BASE_REGISTERS] = from->frame->registers;
			memcpy(&v, (uint8_t *)operand(&w, from->where) + lane * from->bytes, n);
		} else {
			/* The start is aligned to what it holds, so 8 bytes lie together. */
			for (uint32_t b = 0; b < n; b++)
				((uint8_t *)&v)[b] = t->w.local[mem_local_at(
					from->frame->local_base + from->where + at + b, lane)];
		}
		if (to->in_register) {
			memcpy(to->frame->registers + (to->where & (OPERAND_OFFSET_MAX - 1)) +
				       lane * to->bytes,
			       &v, n);
		} else {
			for (uint32_t b = 0; b < n; b++)
				t->w.local[mem_local_at(to->frame->local_base + to->where + at + b,
							lane)] = ((uint8_t *)&v)[b];
		}
	}
}

static struct side formal_side(struct frame *frame, const struct formal *f)
{
	if (f->in_register)
		return (struct side){frame, true, f->operand, f->width == 8 ? 2 : f->width / 8};
	return (struct side){frame, false, f->offset, f->size};
}

static struct side call_side(struct frame *frame, const struct call_value *v)
{
	if (v->size & CALL_IN_REGISTER)
		return (struct side){frame, true, v->where, (v->size & ~CALL_IN_REGISTER) / 8};
	return (struct side){frame, false, v->where, v->size};
}

void frame_arguments(struct thread_warp *t, struct frame *caller, struct frame *callee,
		     uint32_t lanes)
{
	const uint32_t *words = t->w.words + callee->call->extra;
	const struct call_value *values = (const void *)(words + 2 + 2 * words[0]);
	const struct formals *formals = &callee->function->formals;

	for (uint32_t n = 0; n < words[1] && n < formals->n_params; n++) {
		struct side from = call_side(caller, &values[n]);
		struct side to = formal_side(callee, &formals->params[n]);

		for (uint32_t left = lanes; left; left &= left - 1)
			copy_lane(t, &to, &from, (unsigned)__builtin_ctz(left));
	}
}

void frame_results(struct thread_warp *t, struct frame *callee, uint32_t lanes)
{
	const uint32_t *words = t->w.words + callee->call->extra;
	const struct call_value *values = (const void *)(words + 2);
	const struct formals *formals = &callee->function->formals;

	for (uint32_t n = 0; n < words[0] && n < formals->n_results; n++) {
		struct side to = call_side(callee->parent, &values[n]);
		struct side from = formal_side(callee, &formals->results[n]);

		for (uint32_t left = lanes; left; left &= left - 1)
			copy_lane(t, &to, &from, (unsigned)__builtin_ctz(left));
	}
}
