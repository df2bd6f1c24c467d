/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts: linked, refused by name, and launched within their bounds.
 */
#include "tests/unit/test_ptx_harness.h"

#define STORE "mad.wide.u32 %at, %t, 4, %in;\nst.global.u32 [%at], %r;\n"

static uint32_t *words(void)
{
	return harness_data();
}

TEST(texts_are_linked_by_their_names)
{
	struct ptx_source sources[] = {
		{.text = HARNESS_HEAD
		 ".extern .func (.param .u32 r) other (.param .u32 a);\n.extern .global .u32 "
		 "g[4];\n"
		 ".weak .func (.param .u32 r) w () { st.param.u32 [r], 1; ret; }\n" HARNESS_KERNEL(
			 "k") ".reg .u32 %r, %x;\n.reg .u64 %g;\n{ .param .u32 a; .param .u32 b;\n"
			      "st.param.u32 [a], %t; call (b), other, (a); ld.param.u32 %r, [b];\n"
			      "call (b), w; ld.param.u32 %x, [b]; }\nadd.u32 %r, %r, %x;\n"
			      "ld.global.u32 %x, [g+8];\nadd.u32 %r, %r, %x;\n" STORE "ret; }\n"},
		{.text = HARNESS_HEAD
		 ".visible .global .u32 g[4] = {1, 2, 30, 4};\n.global .u64 p = generic(g)+4;\n"
		 ".visible .func (.param .u32 r) other (.param .u32 a) { .reg .u32 %r; .reg .u64 "
		 "%p;\n"
		 "ld.global.u64 %p, [p]; ld.u32 %r, [%p]; mul.lo.u32 %r, %r, 100;\n"
		 "st.param.u32 [r], %r; ret; }\n"
		 ".visible .func (.param .u32 r) w () { st.param.u32 [r], 7; ret; }\n"}};
	struct ptx_options options = {.capability = 90};

	harness_start();
	if (ptx_module_new(sources, 2, &options, &harness.module, &harness.error))
		test_fail(__FILE__, __LINE__, "%s", harness.error.text);
	harness_place();
	harness_run("k", 1, 1);
	expect_eq(words()[0], 200 + 7 + 30);
	expect_eq(ptx_module_variable(harness.module, "g")->size_bytes, 16);
	expect_eq(ptx_module_new(sources, 1, &options, &(struct ptx_module *){0}, &harness.error),
		  PTX_UNRESOLVED);
	sources[0] = sources[1];
	expect_eq(ptx_module_new(sources, 2, &options, &(struct ptx_module *){0}, &harness.error),
		  PTX_UNRESOLVED);
}

TEST(an_instruction_without_a_row_is_named)
{
	static const struct {
		const char *body, *said;
	} all[] = {
		{"tex.2d.v4.f32.f32 {%a}, [x, {%b}];", "tex.2d.v4.f32.f32 is not simulated"},
		{"wgmma.fence.sync.aligned;", "wgmma.fence.sync.aligned is not simulated"},
		{"add.s33 %t, %t, %t;", "add.s33 is not simulated"},
		{"add.u32 %t, %t;", "add.u32: has too few operands"},
		{"add.u64 %t, %in, %in;", "%t is 32 bits wide, not 64"},
		{"add.u32 %t, %q, 1;", "%q is not declared"},
		{"bra NOWHERE;", "there is no label NOWHERE"},
		{"ld.shared.u32 %t, [p0];", "names a variable of another state space"},
	};
	char text[2048];

	for (size_t n = 0; n < ARRAY_SIZE(all); n++) {
		snprintf(text, sizeof(text), "%s%s\nret;\n}\n", HARNESS_HEAD HARNESS_KERNEL("k"),
			 all[n].body);
		expect_eq(harness_try(text), PTX_INVALID);
		if (!strstr(harness.error.text, all[n].said))
			test_fail(__FILE__, __LINE__, "\"%s\" instead of \"%s\"",
				  harness.error.text, all[n].said);
		expect_eq(harness.error.line, 10);
	}
	expect_eq(harness_try(".version 8.0\n.target sm_100\n"), PTX_INVALID);
	expect_eq(harness_try(".version 9.1\n.target sm_70\n"), PTX_TOO_NEW);
	expect_eq(harness_try(".version 8.0\n.target sm_90\n.global .texref t;\n"), PTX_INVALID);
	expect_eq(harness_try("hello"), PTX_INVALID);
	expect_eq(harness_try("\x7f"
			      "ELF"),
		  PTX_INVALID);
}

TEST(the_only_text_defines_its_extern_declarations)
{
	/* Two arrays apart from each other, and a variable of zeros. */
	harness_load(HARNESS_HEAD
		     ".extern .shared .align 4 .b8 one[128];\n"
		     ".extern .shared .align 4 .b8 two[128];\n"
		     ".extern .global .u32 zero;\n" HARNESS_KERNEL(
			     "k") ""
				  ".reg .u32 %a, %b;\n.reg .pred %p;\nst.shared.u32 [one+124], 5;\n"
				  "st.shared.u32 [two+124], 7;\nld.shared.u32 %a, [one+124];\n"
				  "ld.shared.u32 %b, [two+124];\nmad.lo.u32 %a, %a, 100, %b;\n"
				  "ld.global.u32 %b, [zero];\nadd.u32 %a, %a, %b;\nst.global.u32 "
				  "[%in], %a;\n"
				  "ret;\n}\n");
	expect_eq(ptx_module_kernel(harness.module, "k")->shared_bytes, 256);
	harness_run("k", 1, 1);
	expect_eq(*(uint32_t *)harness_data(), 507);
}

TEST(launches_against_the_kernels_bounds_are_refused)
{
	harness_load(HARNESS_HEAD ".visible .entry k() .maxntid 64, 2 { ret; }\n"
				  ".visible .entry r() .reqntid 32 .minnctapersm 2 { ret; }\n");
	expect_eq(ptx_module_kernel(harness.module, "k")->max_threads, 128);
	expect_eq(harness_launch("k", 1, 128, 0), 0);
	expect_eq(harness_launch("k", 1, 129, 0), 100 + PTX_BAD_SHAPE);
	expect_eq(harness_launch("k", 0, 1, 0), 100 + PTX_BAD_SHAPE);
	expect_eq(harness_launch("r", 1, 32, 0), 0);
	expect_eq(harness_launch("r", 1, 31, 0), 100 + PTX_BAD_SHAPE);
}
