/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, stores and copies. */
#include "tests/unit/test_ptx_memory.h"

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
