/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PTX's arithmetic, a second time: written from the instruction set's description, bit by bit or in
 * 128-bit numbers, without any code of the interpreter.
 */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/macros.h"

typedef __float128 quad;
typedef __int128 wide;
typedef unsigned __int128 uwide;

/* A floating-point format: bits of significance, exponents of the least and largest normal. */
struct ref_format {
	int precision, least, most, bits;
};

static const struct ref_format ref_f16 = {11, -14, 15, 16}, ref_bf16 = {8, -126, 127, 16},
			       ref_f32 = {24, -126, 127, 32}, ref_f64 = {53, -1022, 1023, 64};

static unused quad ref_power(int n)
{
	quad v = 1, base = n < 0 ? (quad)0.5 : 2;

	for (int left = n < 0 ? -n : n; left; left >>= 1, base *= base)
		if (left & 1)
			v *= base;
	return v;
}

static unused bool ref_is_nan(const struct ref_format *f, uint64_t bits)
{
	uint64_t rest = bits & ((1ull << (f->bits - 1)) - 1);
	uint64_t infinity = (uint64_t)(2 * f->most + 1) << (f->precision - 1);

	return rest > infinity;
}

static unused bool ref_is_infinite(const struct ref_format *f, uint64_t bits)
{
	uint64_t rest = bits & ((1ull << (f->bits - 1)) - 1);

	return rest == (uint64_t)(2 * f->most + 1) << (f->precision - 1);
}

static unused bool ref_is_negative(const struct ref_format *f, uint64_t bits)
{
	return bits >> (f->bits - 1) & 1;
}

/* Finite numbers only. */
static unused quad ref_value(const struct ref_format *f, uint64_t bits)
{
	uint64_t rest = bits & ((1ull << (f->bits - 1)) - 1);
	uint64_t fraction = rest & ((1ull << (f->precision - 1)) - 1);
	int exponent = (int)(rest >> (f->precision - 1));
	quad v;

	if (exponent)
		fraction |= 1ull << (f->precision - 1);
	else
		exponent = 1;
	v = (quad)fraction * ref_power(exponent + f->least - 1 - (f->precision - 1));
	return ref_is_negative(f, bits) ? -v : v;
}

static unused uint64_t ref_nan(const struct ref_format *f)
{
	return (1ull << (f->bits - 1)) - 1;
}

static unused uint64_t ref_infinity(const struct ref_format *f, bool negative)
{
	return (uint64_t)negative << (f->bits - 1) | (uint64_t)(2 * f->most + 1)
							     << (f->precision - 1);
}

/* An exact number, known by comparison: sum of two parts, a quotient, or a root. */
struct ref_exact {
	enum { REF_SUM, REF_QUOTIENT, REF_ROOT } kind;
	quad a, b;
	bool negative; /* the sign; a and b are those of its magnitude */
};

/* The sign of (magnitude - x), for x with no more than 55 bits. */
static unused int ref_against(const struct ref_exact *e, quad x)
{
	quad left, right;

	switch (e->kind) {
	case REF_QUOTIENT:
		left = e->a;
		right = x * e->b;
		break;
	case REF_ROOT:
		left = e->a;
		right = x * x;
		break;
	case REF_SUM:
	default:
		left = e->a;
		right = x;
		if (left == right)
			return e->b > 0 ? 1 : e->b < 0 ? -1 : 0;
		break;
	}
	return left > right ? 1 : left < right ? -1 : 0;
}

/* a + b without loss, as its nearest quad and the rest. */
static unused struct ref_exact ref_sum(quad a, quad b)
{
	quad s = a + b, back = s - a, rest = (a - (s - back)) + (b - back);
	struct ref_exact e = {REF_SUM, s, rest, false};

	if (s < 0 || (s == 0 && rest < 0))
		e = (struct ref_exact){REF_SUM, -s, -rest, true};
	return e;
}

/* Rounded: 0 to nearest even, 1 to zero, 2 down, 3 up. `guess` is near the magnitude. */
static unused uint64_t ref_round(const struct ref_format *f, int mode, const struct ref_exact *e,
				 quad guess)
{
	int exponent;
	quad unit, low;
	uint64_t count, bits, sign = (uint64_t)e->negative << (f->bits - 1);
	int against;
	bool up;

	if (ref_against(e, ref_power(f->most + 1)) >= 0) {
		up = mode == 0 || (mode == 2 && e->negative) || (mode == 3 && !e->negative);
		return ref_infinity(f, e->negative) - !up;
	}
	(void)frexpl((long double)guess, &exponent);
	for (exponent = guess == 0 ? f->least : exponent;; exponent--) {
		exponent = exponent < f->least ? f->least : exponent;
		unit = ref_power(exponent - (f->precision - 1));
		count = (uint64_t)(guess / unit);
		while (count && ref_against(e, (quad)count * unit) < 0)
			count--;
		while (ref_against(e, (quad)(count + 1) * unit) >= 0 &&
		       count < 1ull << (f->precision + 1))
			count++;
		if (exponent == f->least || count >> (f->precision - 1))
			break;
	}
	low = (quad)count * unit;
	against = ref_against(e, low);
	up = false;
	if (against > 0 && mode == 0) {
		int half = ref_against(e, low + unit / 2);

		up = half > 0 || (half == 0 && count & 1);
	} else if (against > 0) {
		up = (mode == 2 && e->negative) || (mode == 3 && !e->negative);
	}
	count += up;
	if (count >> f->precision) {
		count >>= 1;
		exponent++;
	}
	if (exponent > f->most) {
		bool away = mode == 0 || (mode == 2 && e->negative) || (mode == 3 && !e->negative);

		return ref_infinity(f, e->negative) - !away;
	}
	bits = count >> (f->precision - 1)
		       ? ((uint64_t)(exponent - f->least + 1) << (f->precision - 1)) +
				 (count - (1ull << (f->precision - 1)))
		       : count;
	return sign | bits;
}

static unused uint64_t ref_from_quad(const struct ref_format *f, int mode, quad v,
				     bool negative_zero)
{
	struct ref_exact e = ref_sum(v, 0);

	if (v == 0)
		e.negative = negative_zero;
	return ref_round(f, mode, &e, e.a);
}

static unused uint64_t ref_flushed(const struct ref_format *f, uint64_t bits)
{
	uint64_t sign = bits & 1ull << (f->bits - 1), rest = bits & ~(1ull << (f->bits - 1));

	return rest >> (f->precision - 1) ? bits : sign;
}

/* Into [0, 1]; NaN becomes 0. */
static unused uint64_t ref_saturated(const struct ref_format *f, uint64_t bits)
{
	if (ref_is_nan(f, bits) || ref_is_negative(f, bits))
		return 0;
	if (ref_is_infinite(f, bits) || ref_value(f, bits) > 1)
		return ref_from_quad(f, 0, 1, false);
	return bits;
}

/* c + a * b, and addition with a = 1. */
static unused uint64_t ref_fma(const struct ref_format *f, int mode, uint64_t a, uint64_t b,
			       uint64_t c)
{
	bool product_sign = ref_is_negative(f, a) != ref_is_negative(f, b);
	bool a_inf = ref_is_infinite(f, a), b_inf = ref_is_infinite(f, b);
	struct ref_exact e;
	quad p, cv;

	if (ref_is_nan(f, a) || ref_is_nan(f, b) || ref_is_nan(f, c))
		return ref_nan(f);
	if (a_inf || b_inf) {
		if ((!a_inf && ref_value(f, a) == 0) || (!b_inf && ref_value(f, b) == 0))
			return ref_nan(f);
		if (ref_is_infinite(f, c) && ref_is_negative(f, c) != product_sign)
			return ref_nan(f);
		return ref_infinity(f, product_sign);
	}
	if (ref_is_infinite(f, c))
		return c;
	p = ref_value(f, a) * ref_value(f, b);
	cv = ref_value(f, c);
	e = ref_sum(p, cv);
	if (e.a == 0 && e.b == 0) {
		bool both = product_sign && ref_is_negative(f, c);

		if (p != 0 || product_sign != ref_is_negative(f, c))
			both = mode == 2;
		e.negative = both;
	}
	return ref_round(f, mode, &e, e.a);
}

static unused uint64_t ref_mul(const struct ref_format *f, int mode, uint64_t a, uint64_t b)
{
	bool sign = ref_is_negative(f, a) != ref_is_negative(f, b);

	/* A zero of the product's sign changes nothing. */
	return ref_fma(f, mode, a, b, (uint64_t)sign << (f->bits - 1));
}

static unused uint64_t ref_div(const struct ref_format *f, int mode, uint64_t a, uint64_t b)
{
	bool sign = ref_is_negative(f, a) != ref_is_negative(f, b);
	struct ref_exact e = {.kind = REF_QUOTIENT, .negative = sign};

	if (ref_is_nan(f, a) || ref_is_nan(f, b) ||
	    (ref_is_infinite(f, a) && ref_is_infinite(f, b)))
		return ref_nan(f);
	if (ref_is_infinite(f, a))
		return ref_infinity(f, sign);
	if (ref_is_infinite(f, b))
		return (uint64_t)sign << (f->bits - 1);
	e.a = ref_value(f, a);
	e.b = ref_value(f, b);
	e.a = e.a < 0 ? -e.a : e.a;
	e.b = e.b < 0 ? -e.b : e.b;
	if (e.b == 0)
		return e.a == 0 ? ref_nan(f) : ref_infinity(f, sign);
	return ref_round(f, mode, &e, e.a / e.b);
}

static unused uint64_t ref_root(const struct ref_format *f, int mode, uint64_t a)
{
	struct ref_exact e = {.kind = REF_ROOT};
	quad guess;

	if (ref_is_nan(f, a))
		return ref_nan(f);
	if (!ref_is_infinite(f, a) && ref_value(f, a) == 0)
		return a;
	if (ref_is_negative(f, a))
		return ref_nan(f);
	if (ref_is_infinite(f, a))
		return a;
	e.a = ref_value(f, a);
	guess = (quad)sqrt((double)e.a);
	for (int i = 0; i < 3; i++)
		guess = (guess + e.a / guess) / 2;
	return ref_round(f, mode, &e, guess);
}

/* The one that is not NaN; -0 is less than +0. */
static unused uint64_t ref_extreme(const struct ref_format *f, uint64_t a, uint64_t b, bool max)
{
	bool less;

	if (ref_is_nan(f, a))
		return ref_is_nan(f, b) ? ref_nan(f) : b;
	if (ref_is_nan(f, b))
		return a;
	if (ref_is_negative(f, a) != ref_is_negative(f, b))
		less = ref_is_negative(f, a);
	else
		less = ref_is_negative(f, a) ? a > b : a < b;
	return less != max ? a : b;
}

/* -1, 0, 1, or 2 for unordered. */
static unused int ref_order(const struct ref_format *f, uint64_t a, uint64_t b)
{
	uint64_t top = 1ull << (f->bits - 1);

	if (ref_is_nan(f, a) || ref_is_nan(f, b))
		return 2;
	if (!((a | b) & (top - 1)))
		return 0;
	if ((a ^ b) & top)
		return a & top ? -1 : 1;
	if (a == b)
		return 0;
	return (a < b) != ((a & top) != 0) ? -1 : 1;
}

static unused bool ref_holds(const char *how, int order)
{
	static const struct {
		const char *word;
		bool less, equal, greater, unordered;
	} table[] = {
		{"eq", 0, 1, 0, 0},  {"ne", 1, 0, 1, 0},  {"lt", 1, 0, 0, 0},  {"le", 1, 1, 0, 0},
		{"gt", 0, 0, 1, 0},  {"ge", 0, 1, 1, 0},  {"lo", 1, 0, 0, 0},  {"ls", 1, 1, 0, 0},
		{"hi", 0, 0, 1, 0},  {"hs", 0, 1, 1, 0},  {"equ", 0, 1, 0, 1}, {"neu", 1, 0, 1, 1},
		{"ltu", 1, 0, 0, 1}, {"leu", 1, 1, 0, 1}, {"gtu", 0, 0, 1, 1}, {"geu", 0, 1, 1, 1},
		{"num", 1, 1, 1, 0}, {"nan", 0, 0, 0, 1},
	};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (!strcmp(table[i].word, how))
			return order < 0    ? table[i].less
			       : order == 0 ? table[i].equal
			       : order == 1 ? table[i].greater
					    : table[i].unordered;
	return false;
}
