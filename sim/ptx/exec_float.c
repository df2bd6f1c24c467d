/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Floating point: the functions of FUN to HBITS rows, and comparisons of floats.
 *
 * Directed rounding uses the host's rounding mode around a loop over volatile variables: a compiler
 * may neither fold nor move those. It is rare, so it is slow.
 */
#include "sim/ptx/exec.h"

#include <fenv.h>

#include "sim/ptx/exec_table.h"
#include "sim/ptx/half.h"

#define SIGN_f32 0x80000000u
#define SIGN_f64 0x8000000000000000ull

#define FMA_f32(a, b, c) __builtin_fmaf(a, b, c)
#define FMA_f64(a, b, c) __builtin_fma(a, b, c)

/* A gross approximation has 32 bits of its result: the low word is zero. */
static inline double gross_f64(double v)
{
	return v == v ? f64_of(bits_f64(ftz_f64(v)) & ~0xffffffffull) : v;
}

static int host_round(uint32_t aux)
{
	static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

	return modes[aux & AUX_ROUND];
}

#define PLAIN_FLOAT(aux) likely(!((aux) & (AUX_ROUND | AUX_FTZ | AUX_SAT | AUX_NAN)))

#define INPUT(t, v, aux) ((aux)&AUX_FTZ ? ftz_##t(v) : (v))
#define OUTPUT(t)                                                                                  \
	static inline T_##t output_##t(T_##t v, uint32_t aux)                                      \
	{                                                                                          \
		v = canonical_##t(v);                                                              \
		if (aux & AUX_FTZ)                                                                 \
			v = ftz_##t(v);                                                            \
		return aux & AUX_SAT ? sat_##t(v) : v;                                             \
	}

OUTPUT(f32)
OUTPUT(f64)

/* Tell the compiler nothing about a value. */
#define HIDDEN(type, name, value)                                                                  \
	volatile type name##_ = (value);                                                           \
	type name = name##_

#define FUN(id, pattern, t, x)                                                                     \
	void X(id)(struct warp * w, const struct insn *i)                                          \
	{                                                                                          \
		T_##t *d = operand(w, i->d);                                                       \
		const T_##t *pa = operand(w, i->a);                                                \
		uint32_t aux = i->aux;                                                             \
                                                                                                   \
		if (PLAIN_FLOAT(aux)) {                                                            \
			EACH_LANE(w, T_##t A = pa[l]; d[l] = canonical_##t(x));                    \
			return;                                                                    \
		}                                                                                  \
		fesetround(host_round(aux));                                                       \
		for (uint32_t left = w->mask; left; left &= left - 1) {                            \
			int l = __builtin_ctz(left);                                               \
			HIDDEN(T_##t, A, INPUT(t, pa[l], aux));                                    \
			HIDDEN(T_##t, r, x);                                                       \
			d[l] = output_##t(r, aux);                                                 \
		}                                                                                  \
		fesetround(FE_TONEAREST);                                                          \
	}
#define FBIN(id, pattern, t, x)                                                                    \
	void X(id)(struct warp * w, const struct insn *i)                                          \
	{                                                                                          \
		T_##t *d = operand(w, i->d);                                                       \
		const T_##t *pa = operand(w, i->a), *pb = operand(w, i->b);                        \
		uint32_t aux = i->aux;                                                             \
                                                                                                   \
		if (PLAIN_FLOAT(aux)) {                                                            \
			EACH_LANE(w, T_##t A = pa[l]; T_##t B = pb[l]; d[l] = canonical_##t(x));   \
			return;                                                                    \
		}                                                                                  \
		if (!(aux & (AUX_ROUND | AUX_NAN))) {                                              \
			EACH_LANE(w, T_##t A = INPUT(t, pa[l], aux);                               \
				  T_##t B = INPUT(t, pb[l], aux); d[l] = output_##t(x, aux));      \
			return;                                                                    \
		}                                                                                  \
		fesetround(host_round(aux));                                                       \
		for (uint32_t left = w->mask; left; left &= left - 1) {                            \
			int l = __builtin_ctz(left);                                               \
			HIDDEN(T_##t, A, INPUT(t, pa[l], aux));                                    \
			HIDDEN(T_##t, B, INPUT(t, pb[l], aux));                                    \
			HIDDEN(T_##t, r, x);                                                       \
			if (aux & AUX_NAN && (A != A || B != B))                                   \
				r = A + B;                                                         \
			d[l] = output_##t(r, aux);                                                 \
		}                                                                                  \
		fesetround(FE_TONEAREST);                                                          \
	}
#define FTER(id, pattern, t, x)                                                                    \
	void X(id)(struct warp * w, const struct insn *i)                                          \
	{                                                                                          \
		T_##t *d = operand(w, i->d);                                                       \
		const T_##t *pa = operand(w, i->a), *pb = operand(w, i->b),                        \
			    *pc = operand(w, i->c);                                                \
		uint32_t aux = i->aux;                                                             \
                                                                                                   \
		if (PLAIN_FLOAT(aux)) {                                                            \
			EACH_LANE(w, T_##t A = pa[l]; T_##t B = pb[l]; T_##t C = pc[l];            \
				  d[l] = canonical_##t(x));                                        \
			return;                                                                    \
		}                                                                                  \
		fesetround(host_round(aux));                                                       \
		for (uint32_t left = w->mask; left; left &= left - 1) {                            \
			int l = __builtin_ctz(left);                                               \
			HIDDEN(T_##t, A, INPUT(t, pa[l], aux));                                    \
			HIDDEN(T_##t, B, INPUT(t, pb[l], aux));                                    \
			HIDDEN(T_##t, C, INPUT(t, pc[l], aux));                                    \
			HIDDEN(T_##t, r, x);                                                       \
			d[l] = output_##t(r, aux);                                                 \
		}                                                                                  \
		fesetround(FE_TONEAREST);                                                          \
	}

static inline float to_f32_f16(uint16_t bits, uint32_t aux)
{
	float f = f16_to_f32(bits);

	return aux & AUX_FTZ ? ftz_f16(f) : f;
}

static inline float to_f32_bf16(uint16_t bits, uint32_t aux)
{
	(void)aux;
	return bf16_to_f32(bits);
}

static inline double limited(double v, uint32_t aux)
{
	if (aux & AUX_SAT)
		return sat_f64(v);
	return aux & AUX_RELU && v <= 0 ? 0 : v; /* -0 becomes +0 too */
}

static inline uint16_t from_f64_f16(double v, uint32_t aux)
{
	uint16_t h = f32_to_f16_round(odd_f32(limited(v, aux)), 0);

	return aux & AUX_FTZ && !(h & 0x7c00) ? h & 0x8000 : h;
}

static inline uint16_t from_f64_bf16(double v, uint32_t aux)
{
	return f32_to_bf16_round(odd_f32(limited(v, aux)), 0);
}

static inline double half_result(double v, double a, double b, uint32_t aux)
{
	return aux & AUX_NAN && (a != a || b != b) ? (double)f32_of(0x7fffffffu) : v;
}

/* Both widths are arrays of 16-bit numbers: one or two for each lane. */
#define EACH_HALF(w, packed, ...)                                                                  \
	for (uint32_t left_ = (w)->mask; left_; left_ &= left_ - 1)                                \
		for (int n_ = 0; n_ <= (packed); n_++) {                                           \
			int h = (__builtin_ctz(left_) << (packed)) + n_;                           \
			__VA_ARGS__;                                                               \
		}
#define HUN(id, pattern, t, packed, x)                                                             \
	void X(id)(struct warp * w, const struct insn *i)                                          \
	{                                                                                          \
		uint16_t *d = operand(w, i->d);                                                    \
		const uint16_t *pa = operand(w, i->a);                                             \
                                                                                                   \
		EACH_HALF(w, packed, float A = to_f32_##t(pa[h], i->aux);                          \
			  d[h] = from_f64_##t(x, i->aux));                                         \
	}
#define HBIN(id, pattern, t, packed, x)                                                            \
	void X(id)(struct warp * w, const struct insn *i)                                          \
	{                                                                                          \
		uint16_t *d = operand(w, i->d);                                                    \
		const uint16_t *pa = operand(w, i->a), *pb = operand(w, i->b);                     \
                                                                                                   \
		EACH_HALF(w, packed, double A = (double)to_f32_##t(pa[h], i->aux);                 \
			  double B = (double)to_f32_##t(pb[h], i->aux);                            \
			  d[h] = from_f64_##t(half_result(x, A, B, i->aux), i->aux));              \
	}
#define HTER(id, pattern, t, packed, x)                                                            \
	void X(id)(struct warp * w, const struct insn *i)                                          \
	{                                                                                          \
		uint16_t *d = operand(w, i->d);                                                    \
		const uint16_t *pa = operand(w, i->a), *pb = operand(w, i->b);                     \
		const uint16_t *pc = operand(w, i->c);                                             \
                                                                                                   \
		EACH_HALF(w, packed, double A = (double)to_f32_##t(pa[h], i->aux);                 \
			  double B = (double)to_f32_##t(pb[h], i->aux);                            \
			  double C = (double)to_f32_##t(pc[h], i->aux);                            \
			  d[h] = from_f64_##t(x, i->aux));                                         \
	}
#define HBITS(id, pattern, t, packed, x)                                                           \
	void X(id)(struct warp * w, const struct insn *i)                                          \
	{                                                                                          \
		uint16_t *d = operand(w, i->d);                                                    \
		const uint16_t *pa = operand(w, i->a);                                             \
                                                                                                   \
		EACH_HALF(w, packed, uint16_t A = pa[h];                                           \
			  if (i->aux & AUX_FTZ && !(A & 0x7c00)) A &= 0x8000;                      \
			  d[h] = (uint16_t)(x));                                                   \
	}

typedef uint16_t T_f16;
typedef uint16_t T_bf16;
#define V_f32		  float
#define V_f64		  double
#define V_f16		  float
#define V_bf16		  float
#define READ_f32(v, aux)  INPUT(f32, v, aux)
#define READ_f64(v, aux)  (v)
#define READ_f16(v, aux)  to_f32_f16(v, aux)
#define READ_bf16(v, aux) to_f32_bf16(v, aux)

#define FSETP(id, pattern, t, x)                                                                   \
	void X(id)(struct warp * w, const struct insn *i)                                          \
	{                                                                                          \
		const T_##t *pa = operand(w, i->a), *pb = operand(w, i->b);                        \
		uint32_t result = 0, aux = i->aux & AUX_FTZ;                                       \
                                                                                                   \
		if (likely(!aux)) {                                                                \
			for (int l = 0; l < LANES; l++) {                                          \
				V_##t A unused = READ_##t(pa[l], 0),                               \
					B unused = READ_##t(pb[l], 0);                             \
                                                                                                   \
				result |= (uint32_t)(x) << l;                                      \
			}                                                                          \
		} else {                                                                           \
			for (int l = 0; l < LANES; l++) {                                          \
				V_##t A unused = READ_##t(pa[l], aux);                             \
				V_##t B unused = READ_##t(pb[l], aux);                             \
                                                                                                   \
				result |= (uint32_t)(x) << l;                                      \
			}                                                                          \
		}                                                                                  \
		compared(w, i, result);                                                            \
	}

#define ORDERED(a, b) ((a) == (a) && (b) == (b))
#define COMPARED(a, b, how)                                                                        \
	((how) == COMPARE_EQ	? (a) == (b)                                                       \
	 : (how) == COMPARE_NE	? ORDERED(a, b) && (a) != (b)                                      \
	 : (how) == COMPARE_LT	? (a) < (b)                                                        \
	 : (how) == COMPARE_LE	? (a) <= (b)                                                       \
	 : (how) == COMPARE_GT	? (a) > (b)                                                        \
	 : (how) == COMPARE_GE	? (a) >= (b)                                                       \
	 : (how) == COMPARE_EQU ? !ORDERED(a, b) || (a) == (b)                                     \
	 : (how) == COMPARE_NEU ? (a) != (b)                                                       \
	 : (how) == COMPARE_LTU ? !((a) >= (b))                                                    \
	 : (how) == COMPARE_LEU ? !((a) > (b))                                                     \
	 : (how) == COMPARE_GTU ? !((a) <= (b))                                                    \
	 : (how) == COMPARE_GEU ? !((a) < (b))                                                     \
	 : (how) == COMPARE_NUM ? ORDERED(a, b)                                                    \
				: !ORDERED(a, b))

static void store_set(struct warp *w, const struct insn *i, uint32_t result)
{
	uint32_t *d = operand(w, i->d);
	uint32_t yes = i->aux & AUX_FLOAT_RESULT ? 0x3f800000u : UINT32_MAX;

	if (i->c != OPERAND_NONE) {
		uint32_t c = predicate(w, i->c, i->aux & AUX_NOT_C);
		uint32_t how = (i->aux & AUX_COMBINE) >> AUX_COMBINE_SHIFT;

		result = how == 1 ? result & c : how == 2 ? result | c : result ^ c;
	}
	EACH_LANE(w, d[l] = result >> l & 1 ? yes : 0);
}

#define V_u16		 uint16_t
#define V_s16		 int16_t
#define V_u32		 uint32_t
#define V_s32		 int32_t
#define V_u64		 uint64_t
#define V_s64		 int64_t
#define READ_u16(v, aux) (v)
#define READ_s16(v, aux) (v)
#define READ_u32(v, aux) (v)
#define READ_s32(v, aux) (v)
#define READ_u64(v, aux) (v)
#define READ_s64(v, aux) (v)

#define SET(id, pattern, t)                                                                        \
	void X(id)(struct warp * w, const struct insn *i)                                          \
	{                                                                                          \
		const T_##t *pa = operand(w, i->a), *pb = operand(w, i->b);                        \
		uint32_t how = (i->aux & AUX_COMPARE) >> AUX_COMPARE_SHIFT, result = 0;            \
                                                                                                   \
		for (int l = 0; l < LANES; l++) {                                                  \
			V_##t a = READ_##t(pa[l], i->aux), b = READ_##t(pb[l], i->aux);            \
                                                                                                   \
			result |= (uint32_t)(COMPARED(a, b, how)) << l;                            \
		}                                                                                  \
		store_set(w, i, result);                                                           \
	}

#define MAGNITUDE(a)                                                                               \
	(sizeof(a) == 4 ? (double)__builtin_fabsf((float)(a)) : __builtin_fabs((double)(a)))
#define LEAST(a)	    (sizeof(a) == 4 ? 0x1p-126 : 0x1p-1022)
#define testp_finite(a)	    ((a) - (a) == 0)
#define testp_infinite(a)   ((a) == (a) && (a) - (a) != 0)
#define testp_number(a)	    ((a) == (a))
#define testp_notanumber(a) ((a) != (a))
#define testp_normal(a)	    ((a) - (a) == 0 && MAGNITUDE(a) >= LEAST(a))
#define testp_subnormal(a)  ((a) != 0 && MAGNITUDE(a) < LEAST(a))

#define TESTP(id, pattern, t, x)                                                                   \
	void X(id)(struct warp * w, const struct insn *i)                                          \
	{                                                                                          \
		const T_##t *pa = operand(w, i->a);                                                \
		uint32_t result = 0;                                                               \
                                                                                                   \
		for (int l = 0; l < LANES; l++) {                                                  \
			T_##t A = pa[l];                                                           \
                                                                                                   \
			result |= (uint32_t)(x) << l;                                              \
		}                                                                                  \
		set_predicate(w, i->d, result);                                                    \
	}

#include "sim/ptx/rows.def"
