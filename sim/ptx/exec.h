/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For the files that define the functions of ptx.def. They are compiled once for any machine and,
 * on x86-64, once more for those with AVX2 and FMA (PTX_ISA is `base` or `v3`): the loops over the
 * lanes are plain C that the compiler turns into vectors.
 */
#pragma once

#include <math.h>
#include <string.h>

#include "sim/ptx/code.h"

#ifndef PTX_ISA
#define PTX_ISA base
#endif
#define X_JOIN(isa, name)  ptx_##isa##_##name
#define X_JOIN2(isa, name) X_JOIN(isa, name)
#define X(name)		   X_JOIN2(PTX_ISA, name)

typedef uint8_t T_u8;
typedef int8_t T_s8;
typedef uint16_t T_u16;
typedef int16_t T_s16;
typedef uint32_t T_u32;
typedef int32_t T_s32;
typedef uint64_t T_u64;
typedef int64_t T_s64;
typedef float T_f32;
typedef double T_f64;

#ifdef __clang__
#define LANES_APART _Pragma("clang loop vectorize(assume_safety)")
#else
#define LANES_APART _Pragma("GCC ivdep")
#endif

/* The statement for each executing lane `l`. A register is either the same as another or apart
 * from it, so the iterations do not depend on each other. */
#define EACH_LANE(w, ...)                                                                          \
	do {                                                                                       \
		if (likely((w)->mask == UINT32_MAX)) {                                             \
			LANES_APART                                                                \
			for (int l = 0; l < LANES; l++) {                                          \
				__VA_ARGS__;                                                       \
			}                                                                          \
		} else {                                                                           \
			for (uint32_t left_ = (w)->mask; left_; left_ &= left_ - 1) {              \
				int l = __builtin_ctz(left_);                                      \
				__VA_ARGS__;                                                       \
			}                                                                          \
		}                                                                                  \
	} while (0)

static inline float f32_of(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static inline uint32_t bits_f32(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

static inline double f64_of(uint64_t bits)
{
	double f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static inline uint64_t bits_f64(double f)
{
	uint64_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

/* One NaN, the device's: results do not depend on which operand came first. */
static inline float canonical_f32(float f)
{
	return f == f ? f : f32_of(0x7fffffffu);
}

static inline double canonical_f64(double f)
{
	return f == f ? f : f64_of(0x7fffffffffffffffull);
}

static inline float ftz_f32(float f)
{
	return __builtin_fabsf(f) < 0x1p-126f ? __builtin_copysignf(0, f) : f;
}

static inline double ftz_f64(double f)
{
	return __builtin_fabs(f) < 0x1p-1022 ? __builtin_copysign(0, f) : f;
}

/* NaN becomes +0, as the device has it. */
static inline float sat_f32(float f)
{
	return f > 0 ? (f < 1 ? f : 1) : 0;
}

static inline double sat_f64(double f)
{
	return f > 0 ? (f < 1 ? f : 1) : 0;
}

/* A NaN is the other operand; of two zeros the smaller one is the negative one. */
#define MIN_MAX(type, name)                                                                        \
	static inline type min_##name(type a, type b)                                              \
	{                                                                                          \
		if (a != a)                                                                        \
			return b;                                                                  \
		if (b != b)                                                                        \
			return a;                                                                  \
		if (a == b)                                                                        \
			return __builtin_signbit(a) ? a : b;                                       \
		return a < b ? a : b;                                                              \
	}                                                                                          \
	static inline type max_##name(type a, type b)                                              \
	{                                                                                          \
		if (a != a)                                                                        \
			return b;                                                                  \
		if (b != b)                                                                        \
			return a;                                                                  \
		if (a == b)                                                                        \
			return __builtin_signbit(a) ? b : a;                                       \
		return a > b ? a : b;                                                              \
	}
MIN_MAX(float, f32)
MIN_MAX(double, f64)
#undef MIN_MAX

/* What a comparison found: alone or with a predicate, and its opposite. */
static inline void compared(struct warp *w, const struct insn *i, uint32_t result)
{
	uint32_t other = ~result;

	if (unlikely(i->c != OPERAND_NONE)) {
		uint32_t c = predicate(w, i->c, i->aux & AUX_NOT_C);
		uint32_t how = (i->aux & AUX_COMBINE) >> AUX_COMBINE_SHIFT;

		result = how == 1 ? result & c : how == 2 ? result | c : result ^ c;
		other = how == 1 ? other & c : how == 2 ? other | c : other ^ c;
	}
	if (i->d != OPERAND_NONE)
		set_predicate(w, i->d, result);
	if (i->e != OPERAND_NONE)
		set_predicate(w, i->e, other);
}
