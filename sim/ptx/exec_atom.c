/* SPDX-License-Identifier: Apache-2.0 */
/* Atomics, asynchronous copies and mbarriers. */
#include "sim/ptx/exec.h"
#include "sim/ptx/exec_place.h"
#include "sim/ptx/exec_table.h"
#include "sim/ptx/half.h"

static uint16_t half_sum(uint16_t a, uint16_t b, bool brain)
{
	double sum;

	if (brain) {
		sum = (double)bf16_to_f32(a) + (double)bf16_to_f32(b);
		return f32_to_bf16_round(odd_f32(sum), 0);
	}
	sum = (double)f16_to_f32(a) + (double)f16_to_f32(b);
	return f32_to_f16_round(odd_f32(sum), 0);
}

static uint64_t sum_of(unsigned type, uint64_t old, uint64_t b)
{
	bool brain = type == TYPE_BF16 || type == TYPE_BF16X2;

	switch (type) {
	case TYPE_F32:
		return bits_f32(canonical_f32(f32_of((uint32_t)old) + f32_of((uint32_t)b)));
	case TYPE_F64:
		return bits_f64(canonical_f64(f64_of(old) + f64_of(b)));
	case TYPE_F16:
	case TYPE_BF16:
		return half_sum((uint16_t)old, (uint16_t)b, brain);
	case TYPE_F16X2:
	case TYPE_BF16X2:
		return (uint32_t)half_sum((uint16_t)(old >> 16), (uint16_t)(b >> 16), brain) << 16 |
		       half_sum((uint16_t)old, (uint16_t)b, brain);
	default:
		return old + b;
	}
}

static bool is_less(unsigned type, uint64_t a, uint64_t b)
{
	switch (type) {
	case TYPE_S32:
		return (int32_t)a < (int32_t)b;
	case TYPE_S64:
		return (int64_t)a < (int64_t)b;
	default:
		return a < b;
	}
}

/* Counts up to b, then from 0 again. */
static uint64_t counted_up(uint64_t old, uint64_t b)
{
	return old >= b ? 0 : old + 1;
}

/* Counts down to 0, then from b again. */
static uint64_t counted_down(uint64_t old, uint64_t b)
{
	return old == 0 || old > b ? b : old - 1;
}

static uint64_t changed(unsigned argument, uint64_t old, uint64_t b, uint64_t c)
{
	unsigned type = argument & 0xff;

	switch ((enum code_atom)(argument >> 8)) {
	case ATOM_ADD:
		return sum_of(type, old, b);
	case ATOM_MIN:
		return is_less(type, b, old) ? b : old;
	case ATOM_MAX:
		return is_less(type, old, b) ? b : old;
	case ATOM_INC:
		return counted_up(old, b);
	case ATOM_DEC:
		return counted_down(old, b);
	case ATOM_AND:
		return old & b;
	case ATOM_OR:
		return old | b;
	case ATOM_XOR:
		return old ^ b;
	case ATOM_CAS:
		return old == b ? c : old;
	case ATOM_EXCH:
	default:
		return b;
	}
}

/* Other grids, processes and the host may change the same word: their threads are real. */
#define ATOMIC(bits)                                                                               \
	static void atom_##bits(struct warp *w, const struct insn *i)                              \
	{                                                                                          \
		uint##bits##_t *d = i->d == OPERAND_NONE ? NULL : operand(w, i->d);                \
		const uint##bits##_t *b = operand(w, i->b);                                        \
		const uint##bits##_t *c = i->c == OPERAND_NONE ? b : operand(w, i->c);             \
		struct place p;                                                                    \
                                                                                                   \
		if (!locate(w, i, sizeof(*b), true, &p))                                           \
			return;                                                                    \
		for (uint32_t left = w->mask; left; left &= left - 1) {                            \
			int l = __builtin_ctz(left);                                               \
			uint##bits##_t *at = (void *)lane_at(&p, l, sizeof(*at)), new;             \
			uint##bits##_t old = __atomic_load_n(at, __ATOMIC_RELAXED), bv = b[l];     \
			uint##bits##_t cv = c[l];                                                  \
                                                                                                   \
			do                                                                         \
				new = (uint##bits##_t)changed(i->argument, old, bv, cv);           \
			while (!__atomic_compare_exchange_n(at, &old, new, false,                  \
							    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));  \
			if (d)                                                                     \
				d[l] = old;                                                        \
		}                                                                                  \
	}

ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

void X(atom)(struct warp *w, const struct insn *i)
{
	unsigned bits;

	switch (i->argument & 0xff) {
	case TYPE_B16:
	case TYPE_F16:
	case TYPE_BF16:
		bits = 16;
		break;
	case TYPE_B64:
	case TYPE_U64:
	case TYPE_S64:
	case TYPE_F64:
		bits = 64;
		break;
	default:
		bits = 32;
		break;
	}
	w->polled = true;
	if (bits == 64)
		atom_64(w, i);
	else if (bits == 32)
		atom_32(w, i);
	else
		atom_16(w, i);
}

/* cp.async: at once, which is within what the ISA allows. The source is described by five words:
 * operand, offset (2), aux, how many of its bytes count (an operand; the rest is zeros). */
void X(copy_async)(struct warp *w, const struct insn *i)
{
	const uint32_t *words = w->words + i->extra;
	const uint32_t *counts = operand(w, words[4]);
	struct insn source = *i;
	struct place from, to;
	unsigned bytes = i->width;

	source.a = words[0];
	source.imm = (int64_t)((uint64_t)words[1] | (uint64_t)words[2] << 32);
	source.aux = words[3];
	if (!locate(w, &source, bytes, false, &from) || !locate(w, i, bytes, true, &to))
		return;
	for (uint32_t left = w->mask; left; left &= left - 1) {
		int l = __builtin_ctz(left);
		unsigned count = counts[l] < bytes ? counts[l] : bytes;
		uint8_t data[16] = {0};

		memcpy(data, lane_at(&from, l, bytes), count);
		memcpy(lane_at(&to, l, bytes), data, bytes);
	}
	w->stored = true;
}

/* An mbarrier: bits 0 to 19 how many are expected, 20 to 39 how many are missing, 63 its phase.
 * The state that an arrival returns is what was there before. */
#define MBARRIER_COUNT 0xfffffull
#define MBARRIER_PHASE (1ull << 63)

static uint64_t arrived(uint64_t was, uint64_t count, bool drop)
{
	uint64_t expected = was & MBARRIER_COUNT, missing = was >> 20 & MBARRIER_COUNT;
	uint64_t phase = was & MBARRIER_PHASE;

	if (drop)
		expected = (expected - count) & MBARRIER_COUNT;
	missing = (missing - count) & MBARRIER_COUNT;
	if (!missing) {
		missing = expected;
		phase ^= MBARRIER_PHASE;
	}
	return phase | missing << 20 | expected;
}

void X(mbarrier)(struct warp *w, const struct insn *i)
{
	enum code_mbarrier what = (enum code_mbarrier)i->argument;
	bool asks = what == MBARRIER_TEST || what == MBARRIER_PARITY;
	struct place p;

	if (!locate(w, i, 8, !asks, &p))
		return;
	for (uint32_t left = w->mask; left; left &= left - 1) {
		int l = __builtin_ctz(left);
		uint8_t *at = lane_at(&p, l, 8);
		uint64_t is, was, given;

		memcpy(&was, at, 8);
		given = what == MBARRIER_TEST ? ((const uint64_t *)operand(w, i->b))[l]
					      : ((const uint32_t *)operand(w, i->b))[l];
		is = what == MBARRIER_INIT    ? (given & MBARRIER_COUNT) * ((1ull << 20) + 1)
		     : what == MBARRIER_INVAL ? 0
					      : arrived(was, given, what == MBARRIER_DROP);
		if (what == MBARRIER_PARITY)
			given = given << 63;
		if (asks) {
			uint32_t *d = operand(w, i->d);
			bool over = ((was ^ given) & MBARRIER_PHASE) != 0;

			*d = (*d & ~(1u << l)) | (uint32_t)over << l;
			continue;
		}
		memcpy(at, &is, 8);
		if (i->d != OPERAND_NONE)
			((uint64_t *)operand(w, i->d))[l] = was;
	}
	w->polled |= asks;
	w->stored |= !asks;
}
