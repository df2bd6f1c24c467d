/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of rows of ptx.def that load, store and convert: kernels made from their patterns,
 * as in test_ptx_rows.c. */
#pragma once

#include "sim/ptx/form.h"
#include "tests/unit/test_ptx_spell.h"

enum { THREADS = 64, DATUM = 16 };

static const char registers[] = ".reg .b16 %h<9>;\n.reg .b32 %w<9>;\n.reg .b64 %l<9>, %addr;\n";

static inline const char *last_type(const struct ref_name *name)
{
	return name->words[name->n - 1];
}

static inline unsigned vector_of(const struct ref_name *name)
{
	return ref_has(name, "v4") ? 4 : ref_has(name, "v2") ? 2 : 1;
}

static inline const char *space_of(const struct ref_name *name)
{
	static const char *const spaces[] = {"const", "local", "shared", "param"};

	for (size_t i = 0; i < ARRAY_SIZE(spaces); i++)
		for (unsigned w = 1; w < name->n; w++)
			if (!strncmp(name->words[w], spaces[i], strlen(spaces[i])))
				return name->words[w];
	return "global";
}

static inline char register_letter(unsigned bits)
{
	return bits <= 16 ? 'h' : bits == 32 ? 'w' : 'l';
}

static inline uint8_t pattern_byte(unsigned n)
{
	return (uint8_t)(0x81 + 0x2b * n);
}

/* Where the datum is: `[place]` afterwards is 16 bytes of the pattern (for loads), or zeroes. */
static inline void put_datum(struct text *t, const char *space, bool pattern, unsigned bytes)
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

static inline void head(struct text *t, bool pattern_in_const)
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

static inline void run_with_pattern(void)
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
