/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 16-bit floating point, f16 and bf16, in integers: no compiler support is needed, and every
 * rounding mode is exact. Rounding: 0 to nearest even, 1 to zero, 2 down, 3 up (AUX_ROUND).
 */
#pragma once

#include "sim/ptx/exec.h"

static inline float f16_to_f32(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;

	if (rest > 0x7c00)
		return f32_of(0x7fffffffu);
	if (rest == 0x7c00)
		return f32_of(sign | 0x7f800000u);
	if (rest >= 0x0400)
		return f32_of(sign | ((rest << 13) + 0x38000000u));
	return __builtin_copysignf((float)rest * 0x1p-24f, f32_of(sign | 0x3f800000u));
}

static inline float bf16_to_f32(uint16_t h)
{
	return canonical_f32(f32_of((uint32_t)h << 16));
}

/* To a float such that rounding it once more gives what rounding the double would have given: the
 * last bit is odd whenever something was lost. */
static inline float odd_f32(double v)
{
	float f = (float)v;
	uint32_t bits = bits_f32(f);

	if ((double)f == v || v != v)
		return f;
	if (__builtin_fabs((double)f) > __builtin_fabs(v))
		bits--;
	return f32_of(bits | 1);
}

/* A fused multiply-add of 16-bit numbers, rounded to odd: the product is exact in a double. */
static inline double odd_fma(double a, double b, double c)
{
	double p = a * b, s = p + c;
	double back = s - p, error = (p - (s - back)) + (c - back);

	if (s - s != 0 || error == 0 || bits_f64(s) & 1)
		return s;
	return f64_of((error > 0) == (s > 0) ? bits_f64(s) + 1 : bits_f64(s) - 1);
}

/* The bits that were cut off decide whether the magnitude grows by one. */
static inline uint32_t rounded(uint32_t kept, uint64_t lost, uint64_t half, unsigned round,
			       bool sign)
{
	switch (round) {
	case 0:
		return kept + (lost > half || (lost == half && kept & 1));
	case 1:
		return kept;
	case 2:
		return kept + (sign && lost);
	default:
		return kept + (!sign && lost);
	}
}

static inline uint16_t f32_to_f16_round(float f, unsigned round)
{
	uint32_t bits = bits_f32(f), all = bits & 0x7fffffff, exponent = all >> 23;
	bool negative = bits >> 31;
	uint32_t h, shift;
	uint64_t m;

	if (all > 0x7f800000)
		return 0x7fff;
	if (all == 0x7f800000) {
		h = 0x7c00;
	} else if (exponent >= 143) { /* 65536 and more */
		h = rounded(0x7bff, 3, 2, round, negative);
	} else if (exponent >= 113) {
		h = rounded((all - (112u << 23)) >> 13, all & 0x1fff, 0x1000, round, negative);
	} else {
		m = exponent ? (all & 0x7fffff) | 0x800000 : all & 0x7fffff;
		shift = 126 - (exponent ? exponent : 1);
		if (shift > 40) {
			h = rounded(0, m ? 1 : 0, 2, round, negative);
		} else {
			h = rounded((uint32_t)(m >> shift), m & ((1ull << shift) - 1),
				    1ull << (shift - 1), round, negative);
		}
	}
	return (uint16_t)(h | (negative ? 0x8000 : 0));
}

static inline uint16_t f32_to_bf16_round(float f, unsigned round)
{
	uint32_t bits = bits_f32(f), all = bits & 0x7fffffff;
	bool negative = bits >> 31;

	if (all > 0x7f800000)
		return 0x7fff;
	if (all < 0x7f800000)
		all = rounded(all >> 16, all & 0xffff, 0x8000, round, negative) << 16;
	return (uint16_t)(all >> 16 | (negative ? 0x8000 : 0));
}

static inline float ftz_f16(float f)
{
	return __builtin_fabsf(f) < 0x1p-14f ? __builtin_copysignf(0, f) : f;
}
