/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of ptx.def that load, store, change memory atomically, or convert: kernels made from their
 * patterns, as in test_ptx_rows.c.
 */
#include "sim/ptx/form.h"
#include "tests/unit/test_ptx_spell.h"

enum { THREADS = 64, DATUM = 16 };

static const char registers[] = ".reg .b16 %h<9>;\n.reg .b32 %w<9>;\n.reg .b64 %l<9>, %addr;\n";

static const char *last_type(const struct ref_name *name)
{
	return name->words[name->n - 1];
}

static unsigned vector_of(const struct ref_name *name)
{
	return ref_has(name, "v4") ? 4 : ref_has(name, "v2") ? 2 : 1;
}

static const char *space_of(const struct ref_name *name)
{
	static const char *const spaces[] = {"const", "local", "shared", "param"};

	for (size_t i = 0; i < ARRAY_SIZE(spaces); i++)
		for (unsigned w = 1; w < name->n; w++)
			if (!strncmp(name->words[w], spaces[i], strlen(spaces[i])))
				return name->words[w];
	return "global";
}

static char register_letter(unsigned bits)
{
	return bits <= 16 ? 'h' : bits == 32 ? 'w' : 'l';
}

static uint8_t pattern_byte(unsigned n)
{
	return (uint8_t)(0x81 + 0x2b * n);
}

/* Where the datum is: `[place]` afterwards is 16 bytes of the pattern (for loads), or zeroes. */
static void put_datum(struct text *t, const char *space, bool pattern, unsigned bytes)
{
	const char *of = !strncmp(space, "shared", 6) ? "shared" : space;

	if (!strcmp(space, "const")) {
		add(t, "mov.u64 %%addr, c;\n");
		return;
	}
	if (!strcmp(space, "global")) {
		add(t, "mad.wide.u32 %%addr, %%t, %d, %%in;\n", DATUM);
		return;
	}
	if (!strcmp(space, "param") || !strcmp(space, "param::entry"))
		return; /* the second parameter */
	of = !strncmp(space, "param", 5) ? "param" : of;
	add(t, ".%s .align 16 .b8 place[%d];\n", of, DATUM);
	add(t, "mov.u64 %%addr, place;\n");
	for (unsigned n = 0; n < DATUM; n += bytes) {
		uint64_t v = 0;

		for (unsigned b = 0; b < bytes && pattern; b++)
			v |= (uint64_t)pattern_byte(n + b) << 8 * b;
		if (bytes == 1) /* through a wide register: its low byte is stored */
			add(t, "mov.b16 %%h0, %u;\nst.%s.b8 [place+%u], %%h0;\n", (unsigned)v, of,
			    n);
		else
			add(t, "mov.b%u %%%c0, 0x%llx;\nst.%s.b%u [place+%u], %%%c0;\n", 8 * bytes,
			    register_letter(8 * bytes), (unsigned long long)v, of, 8 * bytes, n,
			    register_letter(8 * bytes));
	}
}

static void head(struct text *t, bool pattern_in_const)
{
	add(t, "%s", HARNESS_HEAD ".const .align 16 .b8 c[16] = {");
	for (unsigned n = 0; n < DATUM; n++)
		add(t, "%s%u", n ? ", " : "", pattern_in_const ? pattern_byte(n) : 0);
	add(t, "%s%s",
	    "};\n.visible .entry k(.param .u64 p0, .param .align 16 .b8 p1[16])\n{\n"
	    ".reg .u64 %in, %at;\n.reg .u32 %t;\nld.param.u64 %in, [p0];\n"
	    "mov.u32 %t, %tid.x;\n",
	    registers);
	add(t, "mad.wide.u32 %%at, %%t, 64, %%in;\nadd.u64 %%at, %%at, 4096;\n");
}

static void run_with_pattern(void)
{
	const struct ptx_kernel *kernel = ptx_module_kernel(harness.module, "k");
	uint8_t params[32];
	struct ptx_launch launch = {.grid = {1, 1, 1},
				    .block = {THREADS, 1, 1},
				    .params = params,
				    .params_bytes = sizeof(params)};
	struct ptx_grid *grid;

	memcpy(params, &HARNESS_DATA, 8);
	for (unsigned n = 0; n < 16; n++)
		params[16 + n] = pattern_byte(n);
	expect(kernel && !ptx_grid_new(kernel, &launch, &harness.env, &grid));
	if (ptx_grid_run(grid, 1 << 20))
		test_fail(__FILE__, __LINE__, "fault %d in line %u, address %llx",
			  (int)ptx_grid_report(grid)->fault, ptx_grid_report(grid)->fault_line,
			  (unsigned long long)ptx_grid_report(grid)->fault_address);
	ptx_grid_free(grid);
}

/* The registers hold the datum, extended by its type to their width. */
static void try_load(const char *spelling, bool into_wide)
{
	static char text[8192];
	struct text t = {text, text + sizeof(text)};
	struct ref_name name;
	unsigned bytes, n, reg;
	char letter;
	const char *space;
	uint8_t *data;

	ref_parse(&name, spelling);
	bytes = ref_bits(last_type(&name)) / 8;
	n = vector_of(&name);
	if (n * bytes > DATUM)
		return;
	reg = into_wide ? 64 : bytes < 2 ? 16 : 8 * bytes;
	letter = register_letter(reg);
	space = space_of(&name);
	head(&t, true);
	put_datum(&t, space, true, bytes);
	add(&t, n > 1 ? "%s {" : "%s ", spelling);
	for (unsigned k = 0; k < n; k++)
		add(&t, "%s%%%c%u", k ? ", " : "", letter, 4 + k);
	add(&t, "%s, [%s];\n", n > 1 ? "}" : "",
	    !strcmp(space, "param") || !strcmp(space, "param::entry") ? "p1"
	    : !strncmp(space, "param", 5)			      ? "place"
								      : "%addr");
	for (unsigned k = 0; k < n; k++)
		add(&t, "st.global.b%u [%%at+%u], %%%c%u;\n", reg, 8 * k, letter, 4 + k);
	add(&t, "ret;\n}\n");
	harness_load(text);
	data = harness_data();
	memset(data, 0, 1 << 16);
	for (unsigned i = 0; i < THREADS * DATUM; i++)
		data[i] = pattern_byte(i % DATUM);
	run_with_pattern();
	for (unsigned i = 0; i < THREADS; i++) {
		for (unsigned k = 0; k < n; k++) {
			uint64_t raw = 0, got, wanted;

			for (unsigned b = 0; b < bytes; b++)
				raw |= (uint64_t)pattern_byte(k * bytes + b) << 8 * b;
			wanted = masked((uint64_t)ref_read(last_type(&name), raw), reg);
			memcpy(&got, data + 4096 + 64 * i + 8 * k, 8);
			if (got != wanted)
				test_fail(__FILE__, __LINE__, "%s (%u): %llx, not %llx", spelling,
					  reg, (unsigned long long)got, (unsigned long long)wanted);
		}
	}
}

static void try_store(const char *spelling, bool from_wide)
{
	static char text[8192];
	struct text t = {text, text + sizeof(text)};
	struct ref_name name;
	unsigned bytes, n, reg;
	const char *space;
	uint8_t *data;

	ref_parse(&name, spelling);
	bytes = ref_bits(last_type(&name)) / 8;
	n = vector_of(&name);
	if (n * bytes > DATUM || !strcmp(space_of(&name), "param"))
		return; /* kernels' parameters are constant; calls store to others */
	reg = from_wide ? 64 : bytes < 2 ? 16 : 8 * bytes;
	space = space_of(&name);
	head(&t, false);
	put_datum(&t, space, false, bytes);
	for (unsigned k = 0; k < n; k++)
		add(&t, "mov.b%u %%%c%u, 0x%llx;\n", reg, register_letter(reg), 4 + k,
		    (unsigned long long)masked(0xf1e2d3c4b5a69788ull + k, reg));
	add(&t, "%s [%s], ", spelling, !strncmp(space, "param", 5) ? "place" : "%addr");
	add(&t, n > 1 ? "{" : "");
	for (unsigned k = 0; k < n; k++)
		add(&t, "%s%%%c%u", k ? ", " : "", register_letter(reg), 4 + k);
	add(&t, n > 1 ? "};\n" : ";\n");
	for (unsigned b = 0; b < DATUM; b++) {
		const char *of = !strncmp(space, "shared", 6)  ? "shared"
				 : !strncmp(space, "param", 5) ? "param"
							       : space;

		add(&t, "ld.%s.b8 %%h0, [%s+%u];\nst.global.b8 [%%at+%u], %%h0;\n", of,
		    !strcmp(of, "param") ? "place" : "%addr", b, b);
	}
	add(&t, "ret;\n}\n");
	harness_load(text);
	data = harness_data();
	memset(data, 0, 1 << 16);
	run_with_pattern();
	for (unsigned i = 0; i < THREADS; i++) {
		for (unsigned b = 0; b < DATUM; b++) {
			uint64_t value = 0xf1e2d3c4b5a69788ull + b / bytes;
			uint8_t wanted = b < n * bytes ? (uint8_t)(value >> 8 * (b % bytes)) : 0;

			if (data[4096 + 64 * i + b] != wanted)
				test_fail(__FILE__, __LINE__, "%s (%u): byte %u is %02x, not %02x",
					  spelling, reg, b, data[4096 + 64 * i + b], wanted);
		}
	}
}

TEST(every_load_reads_its_space_and_extends_by_its_type)
{
	static struct spellings s;
	unsigned tried = 0;

	for (size_t i = 0; i < form_rows_count; i++) {
		if (strncmp(form_rows[i].operands, "ld", 3))
			continue;
		spell_all(form_rows[i].pattern, &s);
		for (unsigned n = 0; n < s.n; n++, tried++) {
			try_load(s.names[n], false);
			try_load(s.names[n], true);
		}
	}
	expect(tried > 500);
}

TEST(vectors_are_read_and_written_in_every_space)
{
	static const char *const types[] = {"u8", "s16", "b32", "f64"};
	static const char *const spaces[] = {"", ".global", ".shared", ".local"};
	char name[64];

	for (size_t t = 0; t < ARRAY_SIZE(types); t++) {
		for (size_t s = 0; s < ARRAY_SIZE(spaces); s++) {
			for (unsigned v = 2; v <= 4; v += 2) {
				snprintf(name, sizeof(name), "ld%s.v%u.%s", spaces[s], v, types[t]);
				try_load(name, false);
				try_load(name, true);
				snprintf(name, sizeof(name), "st%s.v%u.%s", spaces[s], v, types[t]);
				try_store(name, false);
				try_store(name, true);
			}
		}
	}
}

TEST(every_store_writes_the_low_bytes_and_no_others)
{
	static struct spellings s;
	unsigned tried = 0;

	for (size_t i = 0; i < form_rows_count; i++) {
		if (strcmp(form_rows[i].operands, "st"))
			continue;
		spell_all(form_rows[i].pattern, &s);
		for (unsigned n = 0; n < s.n; n++, tried++) {
			try_store(s.names[n], false);
			try_store(s.names[n], true);
		}
	}
	expect(tried > 300);
}

/* ---- atomics ------------------------------------------------------------------------------- */

static uint64_t half_sum(const struct ref_format *f, uint64_t a, uint64_t b)
{
	return ref_fma(f, 0, ref_from_quad(f, 0, 1, false), a, b);
}

static uint64_t after_atom(const struct ref_name *name, uint64_t old, uint64_t b, uint64_t c)
{
	const char *t = last_type(name);
	const struct ref_format *f = format_of(t);
	wide x, y;

	if (f && strstr(t, "x2") && ref_has(name, "add"))
		return half_sum(f, old >> 16 & 0xffff, b >> 16 & 0xffff) << 16 |
		       half_sum(f, old & 0xffff, b & 0xffff);
	if (f && ref_has(name, "add"))
		return half_sum(f, masked(old, (unsigned)f->bits), masked(b, (unsigned)f->bits));
	x = ref_read(t, old);
	y = ref_read(t, b);
	if (ref_has(name, "add"))
		return (uint64_t)(x + y);
	if (ref_has(name, "min"))
		return (uint64_t)(y < x ? y : x);
	if (ref_has(name, "max"))
		return (uint64_t)(y > x ? y : x);
	if (ref_has(name, "inc"))
		return (uint64_t)(x >= y ? 0 : x + 1);
	if (ref_has(name, "dec"))
		return (uint64_t)(x == 0 || x > y ? y : x - 1);
	if (ref_has(name, "and"))
		return (uint64_t)(x & y);
	if (ref_has(name, "or"))
		return (uint64_t)(x | y);
	if (ref_has(name, "xor"))
		return (uint64_t)(x ^ y);
	if (ref_has(name, "cas"))
		return (uint64_t)(x == y ? ref_read(t, c) : x);
	return b; /* exch */
}

static unsigned atom_bits(const char *t)
{
	return strstr(t, "x2") ? 32 : !strcmp(t, "bf16") ? 16 : ref_bits(t);
}

struct atom_io {
	uint64_t word, b, c, old;
};

static void try_atom(const char *spelling, bool red)
{
	static char text[8192];
	static struct atom_io before[THREADS];
	struct text t = {text, text + sizeof(text)};
	struct ref_name name;
	struct atom_io *io;
	const struct ref_format *f;
	unsigned bits;
	char r;

	ref_parse(&name, spelling);
	bits = atom_bits(last_type(&name));
	f = format_of(last_type(&name));
	r = register_letter(bits);
	head(&t, false);
	add(&t, "mad.wide.u32 %%at, %%t, 32, %%in;\n");
	for (unsigned k = 1; k < 3; k++)
		add(&t, "ld.global.b%u %%%c%u, [%%at+%u];\n", bits, r, k, 8 * k);
	add(&t, "mov.u64 %%addr, %%at;\n");
	if (!strncmp(space_of(&name), "shared", 6))
		add(&t, ".shared .align 8 .b8 words[512];\nmul.wide.u32 %%addr, %%t, 8;\n"
			"mov.u64 %%l7, words;\nadd.u64 %%addr, %%addr, %%l7;\n"
			"ld.global.u64 %%l8, [%%at];\nst.shared.u64 [%%addr], %%l8;\n");
	if (red)
		add(&t, "%s [%%addr], %%%c1;\n", spelling, r);
	else
		add(&t, "%s %%%c3, [%%addr], %%%c1%s%s;\nst.global.b%u [%%at+24], %%%c3;\n",
		    spelling, r, r, ref_has(&name, "cas") ? ", %" : "",
		    ref_has(&name, "cas") ? (r == 'h'	? "h2"
					     : r == 'w' ? "w2"
							: "l2")
					  : "",
		    bits, r);
	if (!strncmp(space_of(&name), "shared", 6))
		add(&t, "ld.shared.u64 %%l8, [%%addr];\nst.global.u64 [%%at], %%l8;\n");
	add(&t, "ret;\n}\n");
	harness_load(text);
	io = harness_data();
	for (unsigned i = 0; i < THREADS; i++) {
		io[i] = (struct atom_io){noise(), noise(), noise(), 0};
		if (f)
			io[i].word = float_input(f), io[i].b = float_input(f);
		if (test_random_below(2))
			io[i].b = io[i].word;
		before[i] = io[i];
	}
	run_with_pattern();
	for (unsigned i = 0; i < THREADS; i++) {
		uint64_t wanted =
			masked(after_atom(&name, before[i].word, before[i].b, before[i].c), bits);
		bool nan = f && !strstr(last_type(&name), "x2") && ref_is_nan(f, wanted) &&
			   ref_is_nan(f, masked(io[i].word, bits));

		if ((!nan && masked(io[i].word, bits) != wanted) ||
		    (bits < 64 && io[i].word >> bits != before[i].word >> bits) ||
		    (!red && masked(io[i].old, bits) != masked(before[i].word, bits)))
			test_fail(__FILE__, __LINE__,
				  "%s: %llx, %llx, %llx gave %llx, not %llx (old %llx)", spelling,
				  (unsigned long long)before[i].word,
				  (unsigned long long)before[i].b, (unsigned long long)before[i].c,
				  (unsigned long long)io[i].word, (unsigned long long)wanted,
				  (unsigned long long)io[i].old);
	}
}

TEST(every_atomic_changes_memory_and_returns_what_was_there)
{
	static struct spellings s;
	unsigned tried = 0;

	for (size_t i = 0; i < form_rows_count; i++) {
		bool red = !strcmp(form_rows[i].operands, "red");

		if (!red && strcmp(form_rows[i].operands, "atom"))
			continue;
		spell_all(form_rows[i].pattern, &s);
		for (unsigned n = 0; n < s.n; n++, tried++)
			try_atom(s.names[n], red);
	}
	expect(tried > 500);
}

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

/* ---- copies -------------------------------------------------------------------------------- */

TEST(a_copy_in_the_background_is_there_when_it_is_waited_for)
{
	uint32_t *data = harness_data();

	harness_load(HARNESS_HEAD ".shared .align 16 .b8 s[1024];\n" HARNESS_KERNEL(
		"k") ".reg .u32 %to, %n, %a, %b;\n.reg .u64 %from;\n"
		     "mov.u32 %to, s;\nmad.lo.u32 %to, %t, 16, %to;\n"
		     "mad.wide.u32 %from, %t, 16, %in;\n"
		     "cp.async.cg.shared.global.L2::128B [%to], [%from], 16;\n"
		     "cp.async.ca.shared.global [%to+512], [%from+4], 4;\n"
		     "min.u32 %n, %t, 8;\n"
		     "cp.async.ca.shared::cta.global [%to+520], [%from+8], 8, %n;\n"
		     "cp.async.commit_group;\ncp.async.wait_group 0;\ncp.async.wait_all;\n"
		     "bar.sync 0;\nmad.wide.u32 %at, %t, 32, %in;\n"
		     "ld.shared.u32 %a, [%to+12];\nst.global.u32 [%at+1024], %a;\n"
		     "ld.shared.u32 %a, [%to+512];\nst.global.u32 [%at+1028], %a;\n"
		     "ld.shared.v2.u32 {%a, %b}, [%to+520];\n"
		     "st.global.v2.u32 [%at+1032], {%a, %b};\nret;\n}\n");
	data = harness_data();
	for (uint32_t n = 0; n < 128; n++)
		data[n] = 0x01010101u * n;
	harness_run("k", 1, 32);
	for (uint32_t t = 0; t < 32; t++) {
		const uint32_t *got = data + 256 + (size_t)t * 8;
		uint64_t kept = t < 8 ? (1ull << t * 8) - 1 : UINT64_MAX;
		uint64_t both = (uint64_t)data[4 * t + 2] | (uint64_t)data[4 * t + 3] << 32;

		expect_eq(got[0], data[4 * t + 3]);
		expect_eq(got[1], data[4 * t + 1]);
		expect_eq((uint64_t)got[2] | (uint64_t)got[3] << 32, both & kept);
	}
	expect_eq(harness_try(HARNESS_HEAD ".shared .u32 s;\n" HARNESS_KERNEL(
			  "k") "cp.async.ca.shared.global [s], [%in], 3;\nret;\n}\n"),
		  PTX_INVALID);
	/* Both ends are checked. */
	harness_load(HARNESS_HEAD ".shared .u32 s;\n" HARNESS_KERNEL(
		"k") "mov.u64 %at, 4096;\ncp.async.ca.shared.global [s], [%at], 4;\nret;\n}\n");
	expect_eq(harness_launch("k", 1, 1, 0), PTX_FAULTED);
	expect_eq(harness.report.fault_address, 4096);
	harness_load(HARNESS_HEAD ".shared .u32 s;\n" HARNESS_KERNEL(
		"k") "cp.async.ca.shared.global [s+4096], [%in], 4;\nret;\n}\n");
	expect_eq(harness_launch("k", 1, 1, 0), PTX_FAULTED);
}
