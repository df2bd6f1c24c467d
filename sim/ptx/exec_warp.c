/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves, address spaces, and what lanes tell each other.
 */
#include "sim/ptx/exec.h"
#include "sim/ptx/exec_table.h"
#include "sim/ptx/grid.h"
#include "sim/ptx/half.h"

void X(nothing)(struct warp *w, const struct insn *i)
{
	(void)w, (void)i;
}

static void mov_plain(struct warp *w, uint32_t to, uint32_t from, unsigned width)
{
	if (to == OPERAND_NONE)
		return;
	if (width == 64) {
		uint64_t *d = operand(w, to);
		const uint64_t *a = operand(w, from);

		EACH_LANE(w, d[l] = a[l]);
	} else if (width == 32) {
		uint32_t *d = operand(w, to);
		const uint32_t *a = operand(w, from);

		EACH_LANE(w, d[l] = a[l]);
	} else {
		uint16_t *d = operand(w, to);
		const uint16_t *a = operand(w, from);

		EACH_LANE(w, d[l] = a[l]);
	}
}

static uint64_t lane_of(struct warp *w, uint32_t o, unsigned width, int l)
{
	if (o == OPERAND_NONE)
		return 0;
	if (width == 64)
		return ((const uint64_t *)operand(w, o))[l];
	if (width == 32)
		return ((const uint32_t *)operand(w, o))[l];
	return ((const uint16_t *)operand(w, o))[l] & (width == 8 ? 0xffu : 0xffffu);
}

static void set_lane(struct warp *w, uint32_t o, unsigned width, int l, uint64_t v)
{
	if (o == OPERAND_NONE)
		return;
	if (width == 64)
		((uint64_t *)operand(w, o))[l] = v;
	else if (width == 32)
		((uint32_t *)operand(w, o))[l] = (uint32_t)v;
	else
		((uint16_t *)operand(w, o))[l] = (uint16_t)(width == 8 ? v & 0xff : v);
}

static void mov_pack(struct warp *w, const struct insn *i, unsigned width, unsigned n)
{
	unsigned part = width / n;

	for (uint32_t left = w->mask; left; left &= left - 1) {
		int l = __builtin_ctz(left);
		uint64_t v = 0;

		for (unsigned k = 0; k < n; k++)
			v |= lane_of(w, w->words[i->extra + k], part, l) << (k * part & 63);
		set_lane(w, i->d, width, l, v);
	}
}

static void mov_unpack(struct warp *w, const struct insn *i, unsigned width, unsigned n)
{
	unsigned part = width / n;

	for (uint32_t left = w->mask; left; left &= left - 1) {
		int l = __builtin_ctz(left);
		uint64_t v = lane_of(w, i->a, width, l);

		for (unsigned k = 0; k < n; k++)
			set_lane(w, w->words[i->extra + k], part, l, v >> (k * part & 63));
	}
}

/* From all sources to all destinations at once: they may be the same registers. */
static void mov_vector(struct warp *w, const struct insn *i, unsigned width, unsigned n)
{
	for (uint32_t left = w->mask; left; left &= left - 1) {
		int l = __builtin_ctz(left);
		uint64_t v[8];

		for (unsigned k = 0; k < n; k++)
			v[k] = lane_of(w, w->words[i->extra + n + k], width, l);
		for (unsigned k = 0; k < n; k++)
			set_lane(w, w->words[i->extra + k], width, l, v[k]);
	}
}

void X(mov)(struct warp *w, const struct insn *i)
{
	unsigned width = i->argument;
	uint64_t v;

	switch ((enum code_mov)i->width) {
	case MOV_PLAIN:
		mov_plain(w, i->d, i->a, width);
		return;
	case MOV_PACK:
		mov_pack(w, i, width, (unsigned)i->imm);
		return;
	case MOV_UNPACK:
		mov_unpack(w, i, width, (unsigned)i->imm);
		return;
	case MOV_VECTOR:
		mov_vector(w, i, width, (unsigned)i->imm);
		return;
	case MOV_FRAME:
		v = w->local_base + (uint64_t)i->imm;
		break;
	case MOV_SPECIAL:
		v = special_value(w, (unsigned)i->imm);
		break;
	case MOV_NARROW: /* a 32-bit special register as another width */
	default:
		for (uint32_t left = w->mask; left; left &= left - 1) {
			int l = __builtin_ctz(left);

			set_lane(w, i->d, width, l, lane_of(w, i->a, 32, l));
		}
		return;
	}
	for (uint32_t left = w->mask; left; left &= left - 1)
		set_lane(w, i->d, width, __builtin_ctz(left), v);
}

static uint64_t window(uint32_t aux)
{
	switch ((aux & AUX_SPACE) >> AUX_SPACE_SHIFT) {
	case SPACE_SHARED:
		return PTX_WINDOW_SHARED;
	case SPACE_LOCAL:
		return PTX_WINDOW_LOCAL;
	case SPACE_PARAM:
		return PTX_WINDOW_PARAM;
	default:
		return 0;
	}
}

static void moved_by(struct warp *w, const struct insn *i, uint64_t distance)
{
	unsigned width = i->argument;

	if (i->aux & AUX_FRAME)
		distance += w->local_base;
	for (uint32_t left = w->mask; left; left &= left - 1) {
		int l = __builtin_ctz(left);

		set_lane(w, i->d, width, l, lane_of(w, i->a, width, l) + distance);
	}
}

void X(cvta)(struct warp *w, const struct insn *i)
{
	moved_by(w, i, window(i->aux) + (uint64_t)i->imm);
}

void X(cvta_to)(struct warp *w, const struct insn *i)
{
	moved_by(w, i, (uint64_t)i->imm - window(i->aux));
}

void X(isspacep)(struct warp *w, const struct insn *i)
{
	const uint64_t *a = operand(w, i->a);
	uint64_t from = window(i->aux), result = 0;

	for (int l = 0; l < LANES; l++) {
		bool is = from ? a[l] - from < PTX_WINDOW_SIZE : a[l] < PTX_WINDOWS;

		result |= (uint64_t)is << l;
	}
	set_predicate(w, i->d, (uint32_t)result);
}

void X(shfl)(struct warp *w, const struct insn *i)
{
	const uint32_t *pa = operand(w, i->a), *pb = operand(w, i->b), *pc = operand(w, i->c);
	uint32_t values[LANES], inside = 0;

	for (uint32_t l = 0; l < LANES; l++) {
		uint32_t by = pb[l] & 31, segment = pc[l] >> 8 & 31, clamp = pc[l] & 31;
		uint32_t low = l & segment, high = low | (clamp & ~segment);
		int32_t from;
		bool in;

		switch (i->argument) {
		case 0:
			from = (int32_t)(l - by);
			in = from >= (int32_t)high;
			break;
		case 1:
			from = (int32_t)(l + by);
			in = from <= (int32_t)high;
			break;
		case 2:
			from = (int32_t)(l ^ by);
			in = from <= (int32_t)high;
			break;
		default:
			from = (int32_t)(low | (by & ~segment));
			in = from <= (int32_t)high;
			break;
		}
		values[l] = pa[in ? from : (int32_t)l];
		inside |= (uint32_t)in << l;
	}
	if (i->d != OPERAND_NONE) {
		uint32_t *d = operand(w, i->d);

		EACH_LANE(w, d[l] = values[l]);
	}
	if (i->e != OPERAND_NONE)
		set_predicate(w, i->e, inside);
}

static uint32_t members(const struct warp *w, const struct insn *i)
{
	if (i->f == OPERAND_NONE || !w->mask)
		return w->mask;
	return w->mask & ((const uint32_t *)operand(w, i->f))[__builtin_ctz(w->mask)];
}

void X(vote)(struct warp *w, const struct insn *i)
{
	uint32_t among = members(w, i);
	uint32_t yes = predicate(w, i->a, i->aux & AUX_NOT_A) & among;
	bool result = i->argument == 0	 ? yes == among
		      : i->argument == 1 ? yes != 0
					 : yes == among || yes == 0;

	set_predicate(w, i->d, result ? UINT32_MAX : 0);
}

void X(ballot)(struct warp *w, const struct insn *i)
{
	uint32_t yes = predicate(w, i->a, i->aux & AUX_NOT_A) & members(w, i);
	uint32_t *d = operand(w, i->d);

	EACH_LANE(w, d[l] = yes);
}

/* Tells each lane the lanes with its value, and whether it has any. */
static void tell_matches(struct warp *w, const struct insn *i, const uint32_t *same)
{
	if (i->e != OPERAND_NONE) {
		uint32_t all = 0;

		for (int l = 0; l < LANES; l++)
			all |= (uint32_t)(same[l] != 0) << l;
		set_predicate(w, i->e, all);
	}
	if (i->d != OPERAND_NONE) {
		uint32_t *d = operand(w, i->d);

		EACH_LANE(w, d[l] = same[l]);
	}
}

#define MATCH(bits)                                                                                \
	void X(match_b##bits)(struct warp * w, const struct insn *i)                               \
	{                                                                                          \
		const uint##bits##_t *a = operand(w, i->a);                                        \
		uint32_t among = members(w, i), same[LANES];                                       \
                                                                                                   \
		for (int l = 0; l < LANES; l++) {                                                  \
			same[l] = 0;                                                               \
			for (int other = 0; other < LANES; other++)                                \
				same[l] |= (uint32_t)(a[l] == a[other]) << other;                  \
			same[l] &= among;                                                          \
			if (i->argument && same[l] != among)                                       \
				same[l] = 0;                                                       \
		}                                                                                  \
		tell_matches(w, i, same);                                                          \
	}

MATCH(32)
MATCH(64)

static uint32_t reduced(enum code_atom operation, bool is_signed, uint32_t a, uint32_t b)
{
	bool less = is_signed ? (int32_t)b < (int32_t)a : b < a;

	switch ((int)operation) {
	case ATOM_ADD:
		return a + b;
	case ATOM_MIN:
		return less ? b : a;
	case ATOM_MAX:
		return less ? a : b;
	case ATOM_AND:
		return a & b;
	case ATOM_OR:
		return a | b;
	default:
		return a ^ b;
	}
}

void X(redux)(struct warp *w, const struct insn *i)
{
	const uint32_t *a = operand(w, i->a);
	uint32_t *d = operand(w, i->d), left = members(w, i), result = 0;
	bool is_signed = (i->argument & 0xff) == TYPE_S32;

	if (left)
		result = a[__builtin_ctz(left)];
	for (left &= left - 1; left; left &= left - 1)
		result = reduced((enum code_atom)(i->argument >> 8), is_signed, result,
				 a[__builtin_ctz(left)]);
	EACH_LANE(w, d[l] = result);
}

void X(activemask)(struct warp *w, const struct insn *i)
{
	uint32_t *d = operand(w, i->d), mask = w->mask;

	EACH_LANE(w, d[l] = mask);
}

void X(elect)(struct warp *w, const struct insn *i)
{
	uint32_t among = members(w, i), leader = among ? (uint32_t)__builtin_ctz(among) : 0;

	if (i->d != OPERAND_NONE) {
		uint32_t *d = operand(w, i->d);

		EACH_LANE(w, d[l] = leader);
	}
	if (i->e != OPERAND_NONE)
		set_predicate(w, i->e, 1u << leader);
}
