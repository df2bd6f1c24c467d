/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrices that a warp multiplies. All shapes of mma with eight columns lay their parts out alike:
 * lane 4 g + t has rows g and g + 8 of A, C and D and column g of B; a register of A or B holds as
 * many neighbours along k as fit into it, from t on, and the next one those of the next part of k.
 *
 * Sums are made in double and rounded once, which is exact for integers and closer than a device
 * comes for the rest; those of doubles are a chain of fused operations.
 */
#include "sim/ptx/exec.h"
#include "sim/ptx/exec_table.h"
#include "sim/ptx/half.h"

enum { ROWS_MOST = 16, COLUMNS = 8, DEEP_MOST = 32 };

struct matrices {
	double a[ROWS_MOST][DEEP_MOST], b[DEEP_MOST][COLUMNS], d[ROWS_MOST][COLUMNS];
};

/* Number `at` of those in lane `l` of a register. */
static double factor(const void *values, int l, unsigned at, enum mma_type type)
{
	const uint32_t *words = values;

	switch (type) {
	case MMA_F16:
		return (double)f16_to_f32((uint16_t)(words[l] >> 16 * at));
	case MMA_BF16:
		return (double)bf16_to_f32((uint16_t)(words[l] >> 16 * at));
	case MMA_TF32: /* the low bits of the fraction do not count */
		return (double)canonical_f32(f32_of(words[l] & ~0x1fffu));
	case MMA_S8:
		return (double)(int8_t)(words[l] >> 8 * at);
	case MMA_U8:
		return (double)(uint8_t)(words[l] >> 8 * at);
	case MMA_F64:
		break;
	}
	return ((const double *)values)[l];
}

static void factors_read(struct warp *w, const uint32_t *o, const struct mma_shape *s,
			 struct matrices *m)
{
	const uint32_t *b = o + s->n_a;

	for (unsigned r = 0; r < s->n_a; r++) {
		const void *values = operand(w, o[r]);

		for (int l = 0; l < LANES; l++)
			for (unsigned e = 0; e < s->per; e++)
				m->a[l / 4 + (int)(r % s->rows * 8)]
				    [(r / s->rows * 4 + (unsigned)l % 4) * s->per + e] =
					factor(values, l, e, s->a);
	}
	for (unsigned r = 0; r < s->n_b; r++) {
		const void *values = operand(w, b[r]);

		for (int l = 0; l < LANES; l++)
			for (unsigned e = 0; e < s->per; e++)
				m->b[(r * 4 + (unsigned)l % 4) * s->per + e][l / 4] =
					factor(values, l, e, s->b);
	}
}

/* Where number `at` of C and D is in lane `l`: its row and column, and its register. */
#define SUM_ROW(l, at)	  ((unsigned)(l) / 4 + (at) / 2 * 8)
#define SUM_COLUMN(l, at) ((unsigned)(l) % 4 * 2 + (at) % 2)

static void sums_read(struct warp *w, const uint32_t *o, const struct mma_shape *s,
		      struct matrices *m)
{
	for (unsigned at = 0; at < s->rows * 2; at++) {
		const void *values = operand(w, o[s->sum == MMA_SUM_F16 ? at / 2 : at]);

		for (int l = 0; l < LANES; l++) {
			double *to = &m->d[SUM_ROW(l, at)][SUM_COLUMN(l, at)];

			switch (s->sum) {
			case MMA_SUM_F32:
				*to = (double)((const float *)values)[l];
				break;
			case MMA_SUM_F16:
				*to = factor(values, l, at % 2, MMA_F16);
				break;
			case MMA_SUM_S32:
				*to = (double)((const int32_t *)values)[l];
				break;
			case MMA_SUM_F64:
				*to = ((const double *)values)[l];
				break;
			}
		}
	}
}

static void multiply(const struct mma_shape *s, struct matrices *m)
{
	for (unsigned row = 0; row < s->rows * 8; row++) {
		for (unsigned column = 0; column < COLUMNS; column++) {
			double sum = m->d[row][column];

			for (unsigned k = 0; k < s->deep; k++)
				sum = __builtin_fma(m->a[row][k], m->b[k][column], sum);
			m->d[row][column] = sum;
		}
	}
}

static uint32_t sum_s32(double exact, bool saturate)
{
	if (saturate && exact > INT32_MAX)
		return INT32_MAX;
	if (saturate && exact < INT32_MIN)
		return (uint32_t)INT32_MIN;
	return (uint32_t)(int64_t)exact;
}

static void sums_write(struct warp *w, const uint32_t *o, const struct mma_shape *s,
		       const struct matrices *m)
{
	for (unsigned at = 0; at < s->rows * 2; at++) {
		void *to = operand(w, o[s->sum == MMA_SUM_F16 ? at / 2 : at]);
		uint32_t *words = to;
		double *doubles = to;

		EACH_LANE(
			w, const double v = m->d[SUM_ROW(l, at)][SUM_COLUMN(l, at)]; uint32_t half;
			switch (s->sum) {
				case MMA_SUM_F32:
					words[l] = bits_f32(canonical_f32((float)v));
					break;
				case MMA_SUM_F16:
					half = f32_to_f16_round(odd_f32(v), 0);
					words[l] = at % 2 ? (words[l] & 0xffff) | half << 16
							  : (words[l] & 0xffff0000) | half;
					break;
				case MMA_SUM_S32:
					words[l] = sum_s32(v, s->saturate);
					break;
				case MMA_SUM_F64:
					doubles[l] = v;
					break;
			});
	}
}

void X(mma)(struct warp *w, const struct insn *i)
{
	const struct mma_shape s = mma_shape(i->argument);
	const uint32_t *o = w->words + i->extra; /* registers of D, A, B, C */
	struct matrices m = {0}; /* clang-tidy cannot see that a shape fills what it uses */

	factors_read(w, o + s.n_d, &s, &m);
	sums_read(w, o + s.n_d + s.n_a + s.n_b, &s, &m);
	multiply(&s, &m);
	sums_write(w, o, &s, &m);
}
