/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways to spell a row's pattern, text that grows, and inputs worth trying.
 */
#pragma once

#include "tests/unit/test_ptx_harness.h"
#include "tests/unit/test_ptx_reference_int.h"

enum { SPELLINGS_MOST = 64 };

static unused const struct ref_format *format_of(const char *type)
{
	return !strncmp(type, "f16", 3)	   ? &ref_f16
	       : !strncmp(type, "bf16", 4) ? &ref_bf16
	       : !strcmp(type, "f32")	   ? &ref_f32
	       : !strcmp(type, "f64")	   ? &ref_f64
					   : NULL;
}

static unused int mode_of(const struct ref_name *name)
{
	return ref_has(name, "rz") || ref_has(name, "rzi")   ? 1
	       : ref_has(name, "rm") || ref_has(name, "rmi") ? 2
	       : ref_has(name, "rp") || ref_has(name, "rpi") ? 3
							     : 0;
}

static unused uint64_t masked(uint64_t v, unsigned bits)
{
	return bits == 64 ? v : v & ((1ull << bits) - 1);
}

static const uint64_t ints[] = {
	0,
	1,
	2,
	3,
	7,
	8,
	15,
	16,
	31,
	32,
	33,
	63,
	64,
	127,
	128,
	255,
	256,
	0x7fff,
	0x8000,
	0xffff,
	0x10000,
	0x7fffff,
	0x800000,
	0x7fffffff,
	0x80000000,
	0xfffffffe,
	0xffffffff,
	0x100000000,
	0x7fffffffffffffff,
	0x8000000000000000,
	0xfffffffffffffffe,
	0xffffffffffffffff,
	0xaaaaaaaaaaaaaaaa,
};

static unused uint64_t noise(void)
{
	uint64_t v = test_random();

	return test_random_below(4) ? v : ints[test_random_below(ARRAY_SIZE(ints))];
}

/* Zeroes, ones, the ends of the range, what lies between two numbers, and noise of any size. */
static unused uint64_t float_input(const struct ref_format *f)
{
	uint64_t sign = test_random_below(2) << (f->bits - 1), one = ref_from_quad(f, 0, 1, false);
	uint64_t normal = 1ull << (f->precision - 1), v = test_random(), near;

	switch (test_random_below(12)) {
	case 0:
		return sign;
	case 1:
		return sign | (1 + test_random_below(3));
	case 2:
		return sign | (normal - test_random_below(3));
	case 3:
		return sign | (ref_infinity(f, false) - test_random_below(3));
	case 4:
		return ref_nan(f) >> test_random_below(2);
	case 5:
		return sign | (one + test_random_below(5) - 2);
	case 6: /* small whole numbers and halves */
		return sign | ref_from_quad(f, 0, (quad)test_random_below(600) / 2, false);
	case 7: /* around the ends of integer types */
		near = ref_from_quad(f, 0, ref_power((int)test_random_below(65)), false);
		return sign | (near + test_random_below(3) - 1);
	case 8:
	case 9: /* near one, so that sums and products neither vanish nor overflow */
		return sign | (one - 4 * normal + (v & (8 * normal - 1)));
	default:
		return f->bits == 64 ? v : v & ((1ull << f->bits) - 1);
	}
}

struct spellings {
	char names[SPELLINGS_MOST][160];
	unsigned n;
};

static const char *after_group(const char *p)
{
	p = strchr(p, ')') + 1;
	return p + (*p == '?');
}

static unsigned choices(const char *group)
{
	const char *end = strchr(group, ')');
	unsigned n = end[1] == '?' ? 2 : 1;

	for (const char *p = group; p < end; p++)
		n += *p == '|';
	return n;
}

/* `picks` says which choice each group makes; an optional group's choice 0 is to be left out. */
static void spell(const char *pattern, const unsigned *picks, char *name)
{
	for (unsigned group = 0; *pattern; group += *pattern == '(') {
		const char *p = pattern + 1;
		unsigned pick;

		if (*pattern != '(') {
			*name++ = *pattern++;
			group -= *pattern == '(';
			continue;
		}
		pick = picks[group];
		pattern = after_group(pattern);
		if (pattern[-1] == '?' && pick-- == 0) {
			group++;
			group -= *pattern == '(';
			continue;
		}
		for (; pick; p++)
			pick -= *p == '|';
		while (*p != '|' && *p != ')')
			*name++ = *p++;
		group++;
		group -= *pattern == '(';
	}
	*name = '\0';
}

static unused void spell_all(const char *pattern, struct spellings *s)
{
	unsigned counts[16], picks[16] = {0}, groups = 0;
	uint64_t product = 1;

	for (const char *p = strchr(pattern, '('); p; p = strchr(after_group(p), '(')) {
		counts[groups] = choices(p);
		product *= counts[groups++];
	}
	s->n = 0;
	if (product <= SPELLINGS_MOST) {
		for (uint64_t n = 0; n < product; n++) {
			uint64_t left = n;

			for (unsigned g = 0; g < groups; g++) {
				picks[g] = (unsigned)(left % counts[g]);
				left /= counts[g];
			}
			spell(pattern, picks, s->names[s->n++]);
		}
		return;
	}
	spell(pattern, picks, s->names[s->n++]);
	for (unsigned g = 0; g < groups; g++) {
		for (picks[g] = 1; picks[g] < counts[g] && s->n < SPELLINGS_MOST; picks[g]++)
			spell(pattern, picks, s->names[s->n++]);
		picks[g] = 0;
	}
}

struct text {
	char *at, *end;
};

static unused void add(struct text *t, const char *format, ...) printf_like(2, 3);
static unused void add(struct text *t, const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(t->at, (size_t)(t->end - t->at), format, args);
	va_end(args);
	expect(n >= 0 && n < t->end - t->at);
	t->at += n;
}
