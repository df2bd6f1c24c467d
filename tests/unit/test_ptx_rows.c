/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every row of ptx.def: a kernel is made from its pattern, for every way to spell it (or, where
 * those are many, for each modifier once), run over edge cases and noise, and compared with the
 * reference. Rows that are no arithmetic on registers are named in elsewhere[]: their tests are
 * handwritten. A row that is neither fails.
 */
#include "sim/ptx/form.h"
#include "tests/unit/test_ptx_harness.h"
#include "tests/unit/test_ptx_spell.h"

enum { THREADS = 256 };

struct io {
	uint64_t in[4];
	uint64_t predicate; /* bit 0 */
	uint64_t out[3];
};

/* ---- kernels ------------------------------------------------------------------------------- */

static const char *register_of(char letter)
{
	return letter == 'h' || letter == 'e'	? "%h"
	       : letter == 'l' || letter == 'd' ? "%l"
	       : letter == 'p' || letter == 'P' ? "%p"
						: "%w";
}

static const char *type_of(char letter)
{
	return letter == 'h' || letter == 'e'	? "b16"
	       : letter == 'l' || letter == 'd' ? "b64"
						: "b32";
}

/* Sources are read from the thread's 64 bytes; results are stored behind them. */
static void kernel_text(struct text *t, const struct form_row *row, const char *name, bool carry)
{
	const char *results = row->operands, *sources = strchr(results, '=') + 1;
	unsigned index = 0;

	add(t, "%s",
	    HARNESS_HEAD HARNESS_KERNEL(
		    "k") ".reg .b16 %h<9>;\n.reg .b32 %w<9>;\n"
			 ".reg .b64 %l<9>;\n.reg .pred %p<9>;\nmad.wide.u32 %at, %t, 64, %in;\n");
	for (const char *l = sources; *l; l++) {
		if (*l == '?')
			continue;
		if (*l == 'p' || *l == 'P')
			add(t, "ld.global.u32 %%w8, [%%at+32];\nsetp.ne.u32 %%p%u, %%w8, 0;\n",
			    index);
		else
			add(t, "ld.global.%s %s%u, [%%at+%u];\n", type_of(*l), register_of(*l),
			    index, 8 * index);
		index++;
	}
	if (carry) /* the condition code from the predicate's word: 0 or 1, plus all ones */
		add(t, "ld.global.u32 %%w8, [%%at+32];\nadd.cc.u32 %%w8, %%w8, 0xffffffff;\n");
	add(t, "%s %s7", name, register_of(results[0]));
	if (results[1] == '|')
		add(t, "|%s8", register_of(results[2]));
	index = 0;
	for (const char *l = sources; *l; l++, index++) {
		/* Optional predicates belong to a combination; rows without one leave them out. */
		if (l[1] == '?' && !strstr(name, ".and.") && !strstr(name, ".or.") &&
		    !strstr(name, ".xor."))
			break;
		add(t, ", %s%s%u", *l == 'P' && index ? "!" : "", register_of(*l), index);
		if (l[1] == '?')
			l++;
	}
	add(t, ";\n");
	if (register_of(results[0])[1] == 'p')
		add(t, "selp.b64 %%l7, 1, 0, %%p7;\nst.global.b64 [%%at+40], %%l7;\n");
	else
		add(t, "st.global.%s [%%at+40], %s7;\n", type_of(results[0]),
		    register_of(results[0]));
	if (results[1] == '|')
		add(t, "selp.b64 %%l8, 1, 0, %%p8;\nst.global.b64 [%%at+48], %%l8;\n");
	if (carry) {
		bool minus = !strncmp(name, "sub", 3);

		add(t, "%s.u32 %%w8, 0, 0;\n", minus ? "subc" : "addc");
		if (minus)
			add(t, "neg.s32 %%w8, %%w8;\n");
		add(t, "st.global.b32 [%%at+48], %%w8;\n");
	}
	add(t, "ret;\n}\n");
}

/* ---- floating point ------------------------------------------------------------------------ */

/* A function of the host's, in double, for what the device only approximates. */
static bool approximation(const struct ref_name *name, double a, double *out)
{
	if (ref_is(name, "sin"))
		*out = sin(a);
	else if (ref_is(name, "cos"))
		*out = cos(a);
	else if (ref_is(name, "lg2"))
		*out = log2(a);
	else if (ref_is(name, "ex2"))
		*out = exp2(a);
	else if (ref_is(name, "tanh"))
		*out = tanh(a);
	else if (ref_is(name, "rsqrt"))
		*out = 1 / sqrt(a);
	else if (ref_is(name, "rcp"))
		*out = 1 / a;
	else if (ref_is(name, "sqrt"))
		*out = sqrt(a);
	else
		return false;
	return true;
}

static double as_double(const struct ref_format *f, uint64_t bits)
{
	if (ref_is_nan(f, bits))
		return NAN;
	if (ref_is_infinite(f, bits))
		return ref_is_negative(f, bits) ? -INFINITY : INFINITY;
	return (double)ref_value(f, bits);
}

/* How far from right an approximate result may be: two units of 22 bits, or of the format. */
static bool near(const struct ref_format *f, uint64_t got, double wanted, bool gross)
{
	double g = as_double(f, got), room;

	if (wanted != wanted || g != g)
		return wanted != wanted && g != g;
	if (isinf(wanted) || isinf(g))
		return wanted == g || fabs(isinf(g) ? wanted : g) > 0.999 * ldexp(1, f->most);
	room = fabs(wanted) * ldexp(1, gross ? -19 : f->precision > 22 ? -21 : 1 - f->precision);
	return fabs(g - wanted) <= room + ldexp(1, f->least);
}

static uint64_t float_result(const struct ref_name *name, const struct ref_format *f,
			     const uint64_t *in)
{
	int mode = mode_of(name);
	uint64_t one = ref_from_quad(f, 0, 1, false), top = 1ull << (f->bits - 1);

	if (ref_is(name, "add"))
		return ref_fma(f, mode, one, in[0], in[1]);
	if (ref_is(name, "sub"))
		return ref_fma(f, mode, one, in[0], ref_is_nan(f, in[1]) ? in[1] : in[1] ^ top);
	if (ref_is(name, "mul"))
		return ref_mul(f, mode, in[0], in[1]);
	if (ref_is(name, "fma") || ref_is(name, "mad"))
		return ref_fma(f, mode, in[0], in[1], in[2]);
	if (ref_is(name, "div"))
		return ref_div(f, mode, in[0], in[1]);
	if (ref_is(name, "rcp"))
		return ref_div(f, mode, one, in[0]);
	if (ref_is(name, "sqrt"))
		return ref_root(f, mode, in[0]);
	if (ref_is(name, "min") || ref_is(name, "max")) {
		if (ref_has(name, "NaN") && (ref_is_nan(f, in[0]) || ref_is_nan(f, in[1])))
			return ref_nan(f);
		return ref_extreme(f, in[0], in[1], ref_is(name, "max"));
	}
	if (ref_is(name, "abs"))
		return in[0] & ~top;
	if (ref_is(name, "neg"))
		return in[0] ^ top;
	return (in[0] & top) | (in[1] & ~top); /* copysign */
}

/* One number of the format; returns whether it is right. */
static bool float_right(const struct ref_name *name, const struct ref_format *f,
			const uint64_t *raw, uint64_t got)
{
	uint64_t in[3], wanted;
	bool approx = ref_has(name, "approx") || ref_has(name, "full");
	bool ftz = ref_has(name, "ftz");
	double d;

	for (int i = 0; i < 3; i++) {
		in[i] = f->bits == 64 ? raw[i] : raw[i] & ((1ull << f->bits) - 1);
		if (ftz)
			in[i] = ref_flushed(f, in[i]);
	}
	if (approx && approximation(name, as_double(f, in[0]), &d))
		return near(f, got, d, f->bits == 64 && ftz);
	wanted = float_result(name, f, in);
	if (ftz)
		wanted = ref_flushed(f, wanted);
	if (ref_has(name, "sat"))
		wanted = ref_saturated(f, wanted);
	if (ref_has(name, "relu") && !ref_is_nan(f, wanted) && ref_is_negative(f, wanted))
		wanted = 0;
	if (ref_is_nan(f, wanted) && ref_is_nan(f, got))
		return true;
	return got == wanted;
}

/* ---- verdicts ------------------------------------------------------------------------------ */

static unsigned letter_bits(char letter)
{
	return letter == 'h' || letter == 'e' ? 16 : letter == 'l' || letter == 'd' ? 64 : 32;
}

static int order_of(const struct ref_name *name, const char *t, const uint64_t *in)
{
	const struct ref_format *f = format_of(t);
	uint64_t a = in[0], b = in[1];
	wide x, y;

	if (f) {
		a = masked(a, (unsigned)f->bits);
		b = masked(b, (unsigned)f->bits);
		if (ref_has(name, "ftz")) {
			a = ref_flushed(f, a);
			b = ref_flushed(f, b);
		}
		return ref_order(f, a, b);
	}
	x = ref_read(t, a);
	y = ref_read(t, b);
	return x < y ? -1 : x > y;
}

static const char *comparison_of(const struct ref_name *name)
{
	for (unsigned i = 1; i < name->n; i++)
		for (int order = -1; order < 3; order++)
			if (ref_holds(name->words[i], order))
				return name->words[i];
	return "";
}

/* The predicate is the third source; the kernel's text negates it. */
static bool combined(const struct ref_name *name, bool r, bool p)
{
	return ref_has(name, "and")   ? r && !p
	       : ref_has(name, "or")  ? r || !p
	       : ref_has(name, "xor") ? r != !p
				      : r;
}

/* set.CMP.f16.f16 and its like: 1.0 or 0 in the sources' type. */
static bool half_compare_right(const struct ref_name *name, const struct ref_format *f,
			       const struct io *io, unsigned shift)
{
	uint64_t a = masked(io->in[0] >> shift, 16), b = masked(io->in[1] >> shift, 16);
	uint64_t yes = f == &ref_f16 ? 0x3c00 : 0x3f80;

	if (ref_has(name, "ftz")) {
		a = ref_flushed(f, a);
		b = ref_flushed(f, b);
	}
	return masked(io->out[0] >> shift, 16) ==
	       (ref_holds(comparison_of(name), ref_order(f, a, b)) ? yes : 0);
}

static bool compare_right(const struct ref_name *name, const struct io *io)
{
	const char *t = name->words[name->n - 1];
	bool r = ref_holds(comparison_of(name), order_of(name, t, io->in)), p = io->predicate & 1;

	if (ref_is(name, "set") && strstr(t, "f16") && !strcmp(t, name->words[name->n - 2]))
		return half_compare_right(name, format_of(t), io, 0) &&
		       (!strstr(t, "x2") || half_compare_right(name, format_of(t), io, 16));
	if (ref_is(name, "set")) {
		uint64_t yes = ref_has(name, "f32") && strcmp(t, "f32") ? 0x3f800000 : 0xffffffff;

		if (!strcmp(t, "f32") &&
		    (!strcmp(name->words[1], "f32") || !strcmp(name->words[name->n - 2], "f32")))
			yes = 0x3f800000;
		return (uint32_t)io->out[0] == (combined(name, r, p) ? yes : 0);
	}
	return io->out[0] == combined(name, r, p) && io->out[1] == combined(name, !r, p);
}

static bool testp_right(const struct ref_name *name, const struct io *io)
{
	const struct ref_format *f = format_of(name->words[2]);
	uint64_t v = masked(io->in[0], (unsigned)f->bits);
	bool nan = ref_is_nan(f, v), infinite = ref_is_infinite(f, v), zero, r;

	zero = !(v & ((1ull << (f->bits - 1)) - 1));
	r = ref_has(name, "finite")	  ? !nan && !infinite
	    : ref_has(name, "infinite")	  ? infinite
	    : ref_has(name, "number")	  ? !nan
	    : ref_has(name, "notanumber") ? nan
	    : ref_has(name, "normal")	  ? !nan && !infinite && !zero && ref_flushed(f, v) == v
					  : !zero && ref_flushed(f, v) != v;
	return io->out[0] == r;
}

static bool predicate_right(const struct ref_name *name, const struct io *io)
{
	bool a = io->predicate & 1, b = !a, r; /* the second operand is written negated */

	r = ref_is(name, "and")	  ? a && b
	    : ref_is(name, "or")  ? a || b
	    : ref_is(name, "xor") ? a != b
	    : ref_is(name, "not") ? !a
				  : a;
	return io->out[0] == r;
}

static bool right(const struct form_row *row, const struct ref_name *name, const struct io *io)
{
	const char *t = name->words[name->n - 1];
	const struct ref_format *f = format_of(t);
	unsigned bits = letter_bits(row->operands[0]);
	uint64_t wanted[2] = {0};

	if (ref_is(name, "setp") || ref_is(name, "set"))
		return compare_right(name, io);
	if (ref_is(name, "testp"))
		return testp_right(name, io);
	if (!strcmp(t, "pred"))
		return predicate_right(name, io);
	if (ref_is(name, "selp"))
		return masked(io->out[0], bits) == masked(io->in[!(io->predicate & 1)], bits);
	if (ref_is(name, "slct")) {
		bool first = !strcmp(t, "s32") ? (int32_t)io->in[2] >= 0
					       : as_double(&ref_f32, masked(io->in[2], 32)) >= 0;

		if (ref_has(name, "ftz"))
			first = first ||
				(!ref_flushed(&ref_f32, masked(io->in[2], 32) & 0x7fffffff));
		return masked(io->out[0], bits) == masked(io->in[!first], bits);
	}
	if (f && strstr(t, "x2")) {
		uint64_t high[3] = {io->in[0] >> 16, io->in[1] >> 16, io->in[2] >> 16};

		return float_right(name, f, io->in, io->out[0] & 0xffff) &&
		       float_right(name, f, high, io->out[0] >> 16 & 0xffff);
	}
	if (f)
		return float_right(name, f, io->in, masked(io->out[0], bits));
	if (ref_carry(name, t, io->in, io->predicate & 1, wanted))
		return masked(io->out[0], bits) == masked(wanted[0], bits) &&
		       (io->out[1] & 1) == wanted[1];
	if (strstr(t, "x2"))
		return (uint32_t)io->out[0] == ref_halves(name, io->in);
	if (ref_is(name, "dp4a") || ref_is(name, "dp2a"))
		wanted[0] = ref_dot(name, io->in);
	else if (!ref_logic(name, ref_is(name, "prmt") ? "b32" : t, io->in, wanted) &&
		 !ref_arithmetic(name, ref_has(name, "add") && ref_is(name, "vadd") ? "u32" : t,
				 io->in, wanted))
		return false;
	return masked(io->out[0], bits) == masked(wanted[0], bits);
}

/* ---- the test ------------------------------------------------------------------------------ */

static void fill(struct io *io, const struct form_row *row, const struct ref_name *name)
{
	const char *sources = strchr(row->operands, '=') + 1;
	const struct ref_format *f = format_of(name->words[name->n - 1]);

	memset(io, 0, sizeof(*io));
	for (unsigned i = 0; i < 4; i++)
		io->in[i] = noise();
	for (unsigned i = 0; i < 4 && sources[i] && f; i++) {
		if (ref_is(name, "slct") && i < 2)
			continue;
		io->in[i] = float_input(f);
		if (strstr(name->words[name->n - 1], "x2"))
			io->in[i] |= float_input(f) << 16;
	}
	/* sources narrower than their slot are read with what lies beside them cut off */
	for (unsigned i = 0; i < 4 && sources[i]; i++)
		if (letter_bits(sources[i]) < 64 && (!f || ref_is(name, "slct")))
			io->in[i] = masked(io->in[i], letter_bits(sources[i]));
	io->predicate = test_random_below(2);
}

/* Returns how many threads were wrong; the first one of them is printed. */
static unsigned try_spelling(const struct form_row *row, const char *spelling)
{
	unsigned wrong = 0;
	static char text[4096];
	struct io *io;
	struct ref_name name;
	struct text t = {text, text + sizeof(text)};
	bool carry;

	ref_parse(&name, spelling);
	carry = !strcmp(name.words[0], "addc") || !strcmp(name.words[0], "subc") ||
		!strcmp(name.words[0], "madc") || ref_has(&name, "cc");
	kernel_text(&t, row, spelling, carry);
	harness_load(text);
	io = harness_data();
	for (unsigned i = 0; i < THREADS; i++)
		fill(&io[i], row, &name);
	harness_run("k", 1, THREADS);
	for (unsigned i = 0; i < THREADS; i++) {
		if (right(row, &name, &io[i]) || wrong++)
			continue;
		fprintf(stderr, "%s: %016llx %016llx %016llx %016llx %u gave %016llx %llx\n",
			spelling, (unsigned long long)io[i].in[0], (unsigned long long)io[i].in[1],
			(unsigned long long)io[i].in[2], (unsigned long long)io[i].in[3],
			(unsigned)io[i].predicate, (unsigned long long)io[i].out[0],
			(unsigned long long)io[i].out[1]);
	}
	return wrong;
}

/* Rows whose operands are words are tested by test_ptx_memory.c (memory, conversions, moves) and
 * test_ptx_warp.c (control, barriers, lanes), which check there that they miss none. */
static bool is_elsewhere(const struct form_row *row)
{
	return row->kind != KIND_PLAIN || row->operands[0] == '\0' || !strchr(row->operands, '=') ||
	       !strncmp(row->id, "cvt_", 4) || !strncmp(row->id, "shfl", 4) ||
	       !strncmp(row->id, "vote", 4) || !strcmp(row->id, "activemask") ||
	       !strcmp(row->id, "isspacep");
}

TEST(every_row_of_arithmetic_computes_the_same_as_the_reference)
{
	static struct spellings s;
	unsigned rows = 0, wrong = 0;

	for (size_t i = 0; i < form_rows_count; i++) {
		const struct form_row *row = &form_rows[i];

		if (is_elsewhere(row))
			continue;
		rows++;
		spell_all(row->pattern, &s);
		for (unsigned n = 0; n < s.n; n++) {
			struct form form;

			/* GCC writes set's result type first: the pattern allows it at both ends */
			expect_eq(form_find(s.names[n], strlen(s.names[n]), &form), 0);
			if (!strncmp(s.names[n], "set.", 4) && form.n_types != 2)
				continue;
			wrong += try_spelling(row, s.names[n]);
		}
	}
	expect_eq(wrong, 0);
	expect(rows > 400);
}
