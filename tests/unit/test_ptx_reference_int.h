/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The integer half of what test_ptx_reference.h is for: by name, one bit or one byte at a time.
 */
#pragma once

#include <stdio.h>

#include "tests/unit/test_ptx_reference.h"

struct ref_name {
	char text[160], words[12][24];
	unsigned n;
};

static unused void ref_parse(struct ref_name *name, const char *text)
{
	const char *at = text;

	snprintf(name->text, sizeof(name->text), "%s", text);
	for (name->n = 0; *at && name->n < 12; name->n++) {
		size_t n = strcspn(at, ".");

		snprintf(name->words[name->n], sizeof(name->words[0]), "%.*s", (int)n, at);
		at += n + (at[n] == '.');
	}
}

static unused bool ref_has(const struct ref_name *name, const char *word)
{
	for (unsigned i = 1; i < name->n; i++)
		if (!strcmp(name->words[i], word))
			return true;
	return false;
}

static unused bool ref_is(const struct ref_name *name, const char *opcode)
{
	return !strcmp(name->words[0], opcode);
}

static unused unsigned ref_bits(const char *type)
{
	return type[1] == '8' ? 8 : type[1] == '1' ? 16 : type[1] == '3' ? 32 : 64;
}

static unused wide ref_read(const char *type, uint64_t v)
{
	unsigned bits = ref_bits(type);
	wide value = (wide)(bits == 64 ? v : v & ((1ull << bits) - 1));

	return type[0] == 's' && v >> (bits - 1) & 1 ? value - ((wide)1 << bits) : value;
}

static unused bool ref_bit(uint64_t v, unsigned n)
{
	return n < 64 && v >> n & 1;
}

static unused uint64_t ref_clamp(wide v, wide low, wide high)
{
	return (uint64_t)(v < low ? low : v > high ? high : v);
}

/* a * b, and which part of it. */
static unused uint64_t ref_product(const char *type, wide a, wide b, bool high)
{
	unsigned bits = ref_bits(type);
	uwide p = (uwide)a * (uwide)b;

	if (!high)
		return (uint64_t)p;
	return (uint64_t)(type[0] == 's' ? (uwide)((wide)p >> bits) : p >> bits);
}

static unused uint64_t ref_bfe(const char *type, uint64_t a, unsigned at, unsigned length)
{
	unsigned width = ref_bits(type), last = at + length - 1;
	uint64_t d = 0;
	bool sign;

	if (last > width - 1)
		last = width - 1;
	sign = type[0] == 's' && length && ref_bit(a, last);
	for (unsigned i = 0; i < width; i++) {
		bool bit = i < length && at + i < width ? ref_bit(a, at + i) : sign;

		d |= (uint64_t)bit << i;
	}
	return d;
}

static unused uint64_t ref_prmt(const struct ref_name *name, const uint64_t *in)
{
	uint64_t both = in[1] << 32 | (in[0] & 0xffffffff), d = 0;

	for (unsigned i = 0; i < 4; i++) {
		unsigned c = in[2] & 3, from = 0;
		bool sign = false;
		uint64_t byte;

		if (ref_has(name, "f4e"))
			from = c + i;
		else if (ref_has(name, "b4e"))
			from = (c + 8 - i) & 7;
		else if (ref_has(name, "rc8"))
			from = c;
		else if (ref_has(name, "ecl"))
			from = i < c ? c : i;
		else if (ref_has(name, "ecr"))
			from = i < c ? i : c;
		else if (ref_has(name, "rc16"))
			from = 2 * (c & 1) + (i & 1);
		else
			from = in[2] >> (4 * i) & 7, sign = in[2] >> (4 * i) & 8;
		byte = both >> (8 * from) & 0xff;
		if (sign)
			byte = byte & 0x80 ? 0xff : 0;
		d |= byte << (8 * i);
	}
	return d;
}

static unused uint64_t ref_dot(const struct ref_name *name, const uint64_t *in)
{
	bool two = ref_is(name, "dp2a");
	const char *at = name->words[two ? 2 : 1], *bt = name->words[two ? 3 : 2];
	wide sum = ref_read("u32", in[2]);

	for (unsigned i = 0; i < (two ? 2 : 4); i++) {
		unsigned from = two && ref_has(name, "hi") ? i + 2 : i;
		char a8[3] = {at[0], two ? '1' : '8', 0}, b8[3] = {bt[0], '8', 0};

		sum += ref_read(a8, in[0] >> (two ? 16 : 8) * i) * ref_read(b8, in[1] >> 8 * from);
	}
	return (uint64_t)sum;
}

static unused uint64_t ref_funnel(const struct ref_name *name, const uint64_t *in)
{
	unsigned n = ref_has(name, "clamp") ? (in[2] > 32 ? 32 : (unsigned)in[2]) : in[2] & 31;
	uint64_t d = 0;

	for (unsigned i = 0; i < 32; i++) {
		/* bit i of the result is which bit of [b:a] */
		unsigned from = ref_has(name, "l") ? 32 + i - n : i + n;

		d |= (uint64_t)(from < 32 ? ref_bit(in[0], from) : ref_bit(in[1], from - 32)) << i;
	}
	return d;
}

static unused bool ref_field(const struct ref_name *name, const char *t, const uint64_t *in,
			     uint64_t *out)
{
	unsigned bits = ref_bits(t);
	uint64_t d = 0;

	if (ref_is(name, "popc")) {
		for (unsigned i = 0; i < bits; i++)
			d += ref_bit(in[0], i);
	} else if (ref_is(name, "clz")) {
		for (unsigned i = bits; i-- > 0 && !ref_bit(in[0], i);)
			d++;
	} else if (ref_is(name, "brev")) {
		for (unsigned i = 0; i < bits; i++)
			d |= (uint64_t)ref_bit(in[0], i) << (bits - 1 - i);
	} else if (ref_is(name, "bfind")) {
		bool sign = t[0] == 's' && ref_bit(in[0], bits - 1);

		d = 0xffffffff;
		for (unsigned i = 0; i < bits; i++)
			if (ref_bit(in[0], i) != sign)
				d = ref_has(name, "shiftamt") ? bits - 1 - i : i;
	} else if (ref_is(name, "bfe")) {
		d = ref_bfe(t, in[0], in[1] & 255, in[2] & 255);
	} else if (ref_is(name, "bfi")) {
		d = in[1];
		for (unsigned i = 0; i < (in[3] & 255) && (in[2] & 255) + i < bits; i++) {
			unsigned to = (unsigned)(in[2] & 255) + i;

			d = (d & ~(1ull << to)) | (uint64_t)ref_bit(in[0], i) << to;
		}
	} else if (ref_is(name, "bmsk")) {
		uint64_t at = ref_has(name, "wrap") ? in[0] & 31 : in[0] & 0xffffffff;
		uint64_t length = ref_has(name, "wrap") ? in[1] & 31 : in[1] & 0xffffffff;

		for (uint64_t i = 0; i < 32; i++)
			d |= (uint64_t)(i >= at && i - at < length) << i;
	} else if (ref_is(name, "szext")) {
		uint64_t length = ref_has(name, "wrap") ? in[1] & 31 : in[1] & 0xffffffff;

		for (unsigned i = 0; i < 32; i++) {
			unsigned from = i < length ? i : (unsigned)length - 1;

			if (length && (i < length || t[0] == 's'))
				d |= (uint64_t)ref_bit(in[0], from) << i;
		}
	} else if (ref_is(name, "fns")) {
		int32_t count = (int32_t)in[2], left = count < 0 ? -(count + 1) : count - 1;
		int64_t at = (int64_t)(in[1] & 0xffffffff);

		d = 0xffffffff;
		if (count == 0)
			d = at < 32 && ref_bit(in[0], (unsigned)at) ? (uint64_t)at : d;
		for (; count && at >= 0 && at < 32 && d == 0xffffffff; at += count < 0 ? -1 : 1)
			if (ref_bit(in[0], (unsigned)at) && left-- == 0)
				d = (uint64_t)at;
	} else {
		return false;
	}
	*out = d;
	return true;
}

static unused bool ref_logic(const struct ref_name *name, const char *t, const uint64_t *in,
			     uint64_t *out)
{
	unsigned bits = ref_bits(t), n;
	uint64_t d = 0;

	if (ref_field(name, t, in, out))
		return true;
	if (ref_is(name, "prmt")) {
		d = ref_prmt(name, in);
	} else if (ref_is(name, "lop3")) {
		for (unsigned i = 0; i < 32; i++) {
			n = (unsigned)(ref_bit(in[0], i) << 2 | ref_bit(in[1], i) << 1 |
				       ref_bit(in[2], i));
			d |= (uint64_t)ref_bit(in[3] & 255, n) << i;
		}
	} else if (ref_is(name, "and") || ref_is(name, "or") || ref_is(name, "xor") ||
		   ref_is(name, "not")) {
		for (unsigned i = 0; i < bits; i++) {
			bool a = ref_bit(in[0], i), b = ref_bit(in[1], i);
			bool r = ref_is(name, "and")   ? a && b
				 : ref_is(name, "or")  ? a || b
				 : ref_is(name, "xor") ? a != b
						       : !a;

			d |= (uint64_t)r << i;
		}
	} else if (ref_is(name, "cnot")) {
		d = ref_read(t, in[0]) == 0;
	} else if (ref_is(name, "shl")) {
		for (unsigned i = 0; i < bits; i++)
			if (i >= (in[1] & 0xffffffff))
				d |= (uint64_t)ref_bit(in[0], i - (unsigned)in[1]) << i;
	} else if (ref_is(name, "shr")) {
		for (unsigned i = 0; i < bits; i++) {
			uint64_t from = i + (in[1] & 0xffffffff);
			bool top = t[0] == 's' && ref_bit(in[0], bits - 1);

			d |= (uint64_t)(from < bits ? ref_bit(in[0], (unsigned)from) : top) << i;
		}
	} else if (ref_is(name, "shf")) {
		d = ref_funnel(name, in);
	} else {
		return false;
	}
	*out = d;
	return true;
}

static unused uint64_t ref_halves(const struct ref_name *name, const uint64_t *in)
{
	uint64_t d = 0;

	for (unsigned h = 0; h < 32; h += 16) {
		const char *t = ref_has(name, "s16x2") ? "s16" : "u16";
		wide a = ref_read(t, in[0] >> h), b = ref_read(t, in[1] >> h);
		wide r = ref_is(name, "add") ? a + b : (a < b) == ref_is(name, "min") ? a : b;

		d |= ((uint64_t)r & 0xffff) << h;
	}
	return d;
}

static unused bool ref_carry(const struct ref_name *name, const char *t, const uint64_t *in,
			     bool carry, uint64_t *out)
{
	unsigned bits = ref_bits(t);
	wide one = (wide)1 << bits, a = (wide)(in[0] & (uint64_t)(one - 1)), first = a;
	wide second = (wide)(in[1] & (uint64_t)(one - 1)), sum;
	const char *op = name->words[0];
	bool chained = !strcmp(op, "addc") || !strcmp(op, "subc") || !strcmp(op, "madc");

	if (!chained && !ref_has(name, "cc"))
		return false;
	if (!strncmp(op, "mad", 3)) {
		uint64_t p =
			ref_product(t, ref_read(t, in[0]), ref_read(t, in[1]), ref_has(name, "hi"));

		first = (wide)(p & (uint64_t)(one - 1));
		second = (wide)(in[2] & (uint64_t)(one - 1));
	}
	sum = strncmp(op, "sub", 3) ? first + second + (chained && carry)
				    : first - second - (chained && carry);
	out[0] = (uint64_t)sum;
	/* The harness reads it through addc or subc of zeroes. */
	out[1] = ref_has(name, "cc") ? sum < 0 || sum >= one : carry;
	return true;
}

static unused bool ref_arithmetic(const struct ref_name *name, const char *t, const uint64_t *in,
				  uint64_t *out)
{
	wide a = ref_read(t, in[0]), b = ref_read(t, in[1]), c = ref_read(t, in[2]);
	wide high = ((wide)1 << 31) - 1, low = -((wide)1 << 31);
	bool hi = ref_has(name, "hi"), is_wide = ref_has(name, "wide"), sat = ref_has(name, "sat");

	if (is_wide) /* its third operand is as wide as its result */
		c = (wide)in[2];
	if (ref_is(name, "add") || ref_is(name, "sub")) {
		c = ref_is(name, "add") ? a + b : a - b;
		*out = sat ? ref_clamp(c, low, high) : (uint64_t)c;
	} else if (ref_is(name, "vadd") || ref_is(name, "vsub")) {
		*out = in[0] + (ref_is(name, "vadd") ? in[1] : 0 - in[1]) +
		       (ref_has(name, "add") ? in[2] : 0);
	} else if (ref_is(name, "mul")) {
		*out = ref_product(t, a, b, hi);
	} else if (ref_is(name, "mad")) {
		c += (wide)(hi && t[0] == 's' ? (wide)(int64_t)ref_product(t, a, b, hi)
					      : (wide)ref_product(t, a, b, hi));
		*out = sat ? ref_clamp(c, low, high) : (uint64_t)c;
	} else if (ref_is(name, "mul24") || ref_is(name, "mad24")) {
		wide x = a & 0xffffff, y = b & 0xffffff, p;

		if (t[0] == 's') {
			x -= x & 0x800000 ? 0x1000000 : 0;
			y -= y & 0x800000 ? 0x1000000 : 0;
		}
		p = x * y;
		p = hi ? p >> 16 : p;
		if (sat)
			p = (wide)(int32_t)p;
		p += ref_is(name, "mad24") ? c : 0;
		*out = sat ? ref_clamp(p, low, high) : (uint64_t)p;
	} else if (ref_is(name, "sad")) {
		*out = (uint64_t)((a > b ? a - b : b - a) + c);
	} else if (ref_is(name, "div")) {
		*out = b ? (uint64_t)(a / b) : UINT64_MAX;
	} else if (ref_is(name, "rem")) {
		*out = b ? (uint64_t)(a % b) : (uint64_t)a;
	} else if (ref_is(name, "abs")) {
		*out = (uint64_t)(a < 0 ? -a : a);
	} else if (ref_is(name, "neg")) {
		*out = (uint64_t)-a;
	} else if (ref_is(name, "min") || ref_is(name, "max")) {
		wide r = (a < b) == ref_is(name, "min") ? a : b;

		*out = (uint64_t)(ref_has(name, "relu") && r < 0 ? 0 : r);
	} else {
		return false;
	}
	return true;
}
