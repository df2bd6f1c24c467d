/* SPDX-License-Identifier: Apache-2.0 */
/* Atomics. */
#include "tests/unit/test_ptx_memory.h"

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

TEST(every_atomic_changes_memory_and_returns_the_former_value)
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
