/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions. */
#include "tests/unit/test_ptx_memory.h"

/* ---- conversions --------------------------------------------------------------------------- */

static bool is_float(const char *t)
{
	return format_of(t) != NULL;
}

static uint64_t to_integral(const struct ref_format *f, int mode, uint64_t bits)
{
	quad v = ref_value(f, bits), low;
	wide whole;

	if (v > ref_power(64) || v < -ref_power(64))
		return bits;
	whole = (wide)v;
	low = (quad)whole;
	if (low > v)
		low -= 1;
	if (low != v) {
		quad half = low + (quad)0.5;
		bool up = mode == 3 || (mode == 1 && v < 0) ||
			  (mode == 0 && (v > half || (v == half && (wide)low & 1)));

		low += up;
	}
	return ref_from_quad(f, 0, low, ref_is_negative(f, bits));
}

static uint64_t float_to_int(const struct ref_name *name, const char *to, const char *from,
			     uint64_t bits)
{
	const struct ref_format *f = format_of(from);
	unsigned n = ref_bits(to);
	quad low = to[0] == 's' ? -ref_power((int)n - 1) : 0;
	quad high = ref_power((int)n - (to[0] == 's')) - 1, v;

	if (ref_is_nan(f, bits))
		return !strcmp(from, "f64") || n == 64 ? (uint64_t)ref_read(to, 1ull << (n - 1))
						       : 0;
	if (ref_is_infinite(f, bits))
		v = ref_is_negative(f, bits) ? low : high;
	else
		v = ref_value(f, to_integral(f, mode_of(name), bits));
	v = v < low ? low : v > high ? high : v;
	return (uint64_t)(v < 0 ? (uint64_t)(wide)v : (uint64_t)v);
}

static uint64_t converted(const struct ref_name *name, const char *to, const char *from,
			  uint64_t in)
{
	const struct ref_format *f = format_of(to), *g = format_of(from);
	bool integral = ref_has(name, "rni") || ref_has(name, "rzi") || ref_has(name, "rmi") ||
			ref_has(name, "rpi");
	uint64_t r;

	if (g && ref_has(name, "ftz") && !strcmp(from, "f32"))
		in = ref_flushed(g, in);
	if (!f && g)
		return float_to_int(name, to, from, in);
	if (!f) {
		wide low = to[0] == 's' ? -((wide)1 << (ref_bits(to) - 1)) : 0;
		wide high = ((wide)1 << (ref_bits(to) - (to[0] == 's'))) - 1,
		     v = ref_read(from, in);

		return ref_has(name, "sat") ? ref_clamp(v, low, high)
					    : (uint64_t)ref_read(to, (uint64_t)v);
	}
	if (!g) {
		wide v = ref_read(from, in);

		r = ref_from_quad(f, mode_of(name), (quad)v, false);
	} else if (ref_is_nan(g, in)) {
		r = ref_nan(f);
	} else if (ref_is_infinite(g, in)) {
		r = ref_infinity(f, ref_is_negative(g, in));
	} else {
		if (integral)
			in = to_integral(g, mode_of(name), in);
		r = ref_from_quad(f, integral ? 0 : mode_of(name), ref_value(g, in),
				  ref_is_negative(g, in));
	}
	if (ref_has(name, "ftz") && !strcmp(to, "f32"))
		r = ref_flushed(f, r);
	if (ref_has(name, "sat"))
		r = ref_saturated(f, r);
	if (ref_has(name, "relu") && !ref_is_nan(f, r) && ref_is_negative(f, r))
		r = 0;
	return r;
}

static void try_cvt(const char *spelling, bool any_width)
{
	static char text[4096];
	struct text t = {text, text + sizeof(text)};
	struct ref_name name;
	const char *to, *from;
	unsigned to_bits, from_bits, d, a;
	uint64_t *io;

	ref_parse(&name, spelling);
	from = last_type(&name);
	to = name.words[name.n - 2];
	to_bits = is_float(to) ? (unsigned)format_of(to)->bits : ref_bits(to);
	from_bits = is_float(from) ? (unsigned)format_of(from)->bits : ref_bits(from);
	d = any_width ? 64 : to_bits < 16 ? 16 : to_bits;
	a = any_width ? 64 : from_bits < 16 ? 16 : from_bits;
	head(&t, false);
	add(&t,
	    "ld.global.b%u %%%c0, [%%at];\n%s %%%c1, %%%c0;\nst.global.b%u [%%at+8], "
	    "%%%c1;\nret;\n}\n",
	    a, register_letter(a), spelling, register_letter(d), register_letter(a), d,
	    register_letter(d));
	harness_load(text);
	io = (uint64_t *)((uint8_t *)harness_data() + 4096);
	for (unsigned i = 0; i < THREADS; i++)
		io[8 * i] = is_float(from) ? float_input(format_of(from)) : noise();
	run_with_pattern();
	for (unsigned i = 0; i < THREADS; i++) {
		uint64_t in = masked(io[8 * i], from_bits), got = masked(io[8 * i + 1], d);
		uint64_t wanted =
			masked(converted(&name, to, from, in), is_float(to) ? to_bits : d);
		bool nan = is_float(to) && ref_is_nan(format_of(to), wanted) &&
			   ref_is_nan(format_of(to), masked(got, to_bits));

		if (got != wanted && !nan)
			test_fail(__FILE__, __LINE__, "%s (%u from %u): %llx gave %llx, not %llx",
				  spelling, d, a, (unsigned long long)io[8 * i],
				  (unsigned long long)got, (unsigned long long)wanted);
	}
}

TEST(every_conversion_rounds_and_clamps_as_described)
{
	static struct spellings s;
	unsigned tried = 0;

	for (size_t i = 0; i < form_rows_count; i++) {
		if (strcmp(form_rows[i].operands, "cvt"))
			continue;
		spell_all(form_rows[i].pattern, &s);
		for (unsigned n = 0; n < s.n; n++, tried++) {
			try_cvt(s.names[n], false);
			try_cvt(s.names[n], true);
		}
	}
	expect(tried > 400);
}

TEST(two_numbers_are_packed_into_one_register)
{
	static const char *const names[] = {"cvt.rn.f16x2.f32",	      "cvt.rz.f16x2.f32",
					    "cvt.rn.relu.f16x2.f32",  "cvt.rz.relu.f16x2.f32",
					    "cvt.rn.bf16x2.f32",      "cvt.rz.bf16x2.f32",
					    "cvt.rn.relu.bf16x2.f32", "cvt.rz.relu.bf16x2.f32",
					    "cvt.pack.sat.u16.s32",   "cvt.pack.sat.s16.s32"};
	static char text[4096];

	for (size_t n = 0; n < ARRAY_SIZE(names); n++) {
		struct text t = {text, text + sizeof(text)};
		struct ref_name name;
		const char *to, *from;
		uint32_t *io;

		ref_parse(&name, names[n]);
		from = last_type(&name);
		to = name.words[name.n - 2];
		head(&t, false);
		add(&t,
		    "ld.global.v2.b32 {%%w0, %%w1}, [%%at];\n%s %%w2, %%w0, %%w1;\n"
		    "st.global.b32 [%%at+8], %%w2;\nret;\n}\n",
		    names[n]);
		harness_load(text);
		io = (uint32_t *)((uint8_t *)harness_data() + 4096);
		for (unsigned i = 0; i < THREADS; i++)
			for (unsigned k = 0; k < 2; k++)
				io[16 * i + k] = (uint32_t)(is_float(from) ? float_input(&ref_f32)
									   : noise());
		run_with_pattern();
		for (unsigned i = 0; i < THREADS; i++) {
			uint32_t wanted = 0;

			for (unsigned k = 0; k < 2; k++)
				wanted |=
					(uint32_t)(converted(&name, to, from, io[16 * i + 1 - k]) &
						   0xffff)
					<< 16 * k;
			if (io[16 * i + 2] != wanted)
				test_fail(__FILE__, __LINE__, "%s: %x, %x gave %x, not %x",
					  names[n], io[16 * i], io[16 * i + 1], io[16 * i + 2],
					  wanted);
		}
	}
}
