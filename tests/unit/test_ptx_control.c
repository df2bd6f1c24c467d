/* SPDX-License-Identifier: Apache-2.0 */
/* Branches, calls, the environment, and faults. */
#include "tests/unit/test_ptx_warp.h"

/* ---- control ------------------------------------------------------------------------------- */

TEST(a_table_of_branches_goes_where_the_index_says)
{
	run(KERNEL(".reg .u32 %r, %i;\nand.b32 %i, %t, 3;\nT: .branchtargets A, B, C, A;\n"
		   "brx.idx %i, T;\nA: mov.u32 %r, 10;\nbra E;\nB: mov.u32 %r, 11;\nbra E;\n"
		   "C: mov.u32 %r, 12;\nE:\n" STORE),
	    1, 32);
	for (unsigned t = 0; t < 32; t++)
		expect_eq(words()[t], t % 4 == 1 ? 11 : t % 4 == 2 ? 12 : 10);
}

static const char calls[] = HARNESS_HEAD
	".visible .func (.param .u32 r) fib(.param .u32 n) {\n.reg .u32 %n, %a, %b;\n.reg .pred "
	"%p;\n"
	"ld.param.u32 %n, [n];\nsetp.lt.u32 %p, %n, 2;\n@%p st.param.u32 [r], %n;\n@%p ret;\n"
	"sub.u32 %a, %n, 1;\n{ .param .u32 x; .param .u32 y; st.param.u32 [x], %a;\n"
	"call.uni (y), fib, (x); ld.param.u32 %b, [y]; }\nsub.u32 %a, %n, 2;\n"
	"{ .param .u32 %P<2>; st.param.u32 [%P0], %a;\ncall (%P1), fib, (%P0);\n"
	"ld.param.u32 %a, [%P1]; }\nadd.u32 %a, %a, %b;\nst.param.u32 [r], %a;\nret;\n}\n"
	".func (.reg .u32 r) twice(.reg .u32 n) { add.u32 r, n, n; ret; }\n"
	".func (.reg .u32 r) thrice(.reg .u32 n) { mul.lo.u32 r, n, 3; ret.uni; }\n"
	".global .u64 table[2] = { twice, thrice };\n"
	".func endless(.param .u32 n) { .local .b8 l[64]; { .param .u32 x;\n"
	"call endless, (x); } ret; }\n"
	".visible .entry deep() { .reg .u32 %r; { .param .u32 x; call endless, (x); } ret; }\n"
	".visible .entry lost(.param .u64 p) { .reg .u64 %a; ld.param.u64 %a, [p];\n"
	"P: .callprototype _ ();\ncall %a, P; ret; }\n" HARNESS_KERNEL(
		"k") ".reg .u32 %r, %i;\n.reg .u64 %f, %g;\nrem.u32 %r, %t, 12;\n{ .param .u32 a; "
		     ".param .u32 b;\n"
		     "st.param.u32 [a], %r;\ncall (b), fib, (a);\nld.param.u32 %r, [b]; }\n"
		     "and.b32 %i, %t, 1;\nmov.u64 %g, table;\nmad.wide.u32 %f, %i, 8, %g;\n"
		     "ld.global.u64 %f, [%f];\nQ: .callprototype (.reg .u32 _) _ (.reg .u32 _);\n"
		     "call (%r), %f, (%r), Q;\n" STORE "ret;\n}\n";

TEST(functions_call_themselves_and_each_other_by_name_and_by_address)
{
	static const uint32_t fib[] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};

	run(calls, 2, 64);
	for (unsigned t = 0; t < 64; t++)
		expect_eq(words()[t], fib[t % 12] * (t & 1 ? 3 : 2));
}

TEST(a_stack_has_an_end_and_an_address_need_not_be_a_function)
{
	harness_load(calls);
	expect_eq(harness_launch("deep", 1, 32, 0), PTX_FAULTED);
	expect_eq(harness.report.fault, PTX_FAULT_STACK);
	expect_str(harness.report.fault_function, "endless");
	expect_eq(harness_launch("lost", 1, 1, 0), PTX_FAULTED);
	expect_eq(harness.report.fault, PTX_FAULT_INVALID_PC);
}

TEST(printing_and_allocating_reach_the_environment)
{
	run(HARNESS_HEAD
	    ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n"
	    ".extern .func (.param .b64 r) malloc (.param .b64 n);\n.extern .func free (.param "
	    ".b64 p);\n"
	    ".global .align 1 .b8 f[] = "
	    "{37,100,32,37,115,32,37,46,50,102,32,37,108,108,117,10,0};\n"
	    ".global .align 1 .b8 s[3] = {104, 105, 0};\n" HARNESS_KERNEL(
		    "k") ".local .align 8 .b8 a[32];\n.reg .u64 %a, %s, %m;\n.reg .u32 %r;\n"
			 "mov.u64 %a, a;\ncvta.local.u64 %a, %a;\nst.u32 [%a], -7;\nmov.u64 %s, "
			 "s;\n"
			 "cvta.global.u64 %s, %s;\nst.u64 [%a+8], %s;\nst.f64 [%a+16], "
			 "0d3FF8000000000000;\n"
			 "st.u64 [%a+24], 123456789012;\nmov.u64 %s, f;\n{ .param .b64 x; .param "
			 ".b64 y;\n"
			 ".param .b32 z;\nst.param.b64 [x], %s;\nst.param.b64 [y], %a;\n"
			 "call.uni (z), vprintf, (x, y); }\n{ .param .b64 x; .param .b64 y; "
			 "st.param.b64 [x], 64;\n"
			 "call (y), malloc, (x); ld.param.b64 %m, [y]; }\nst.u32 [%m+60], "
			 "11;\nld.u32 %r, [%m+60];\n"
			 "{ .param .b64 x; st.param.b64 [x], %m; call free, (x); }\n" STORE
			 "ret;\n}\n",
	    1, 1);
	expect_str(harness.printed, "-7 hi 1.50 123456789012\n");
	expect_eq(words()[0], 11);
}

TEST(an_assertion_that_fails_says_where)
{
	harness_load(HARNESS_HEAD ".extern .func __assertfail (.param .b64 m, .param .b64 f, "
				  ".param .b32 l, .param .b64 g, .param .b64 c);\n"
				  ".global .align 1 .b8 m[2] = {120, 0};\n" HARNESS_KERNEL(
					  "k") ".reg .u64 %m;\n"
					       "mov.u64 %m, m;\n{ .param .b64 a; .param .b64 b; "
					       ".param .b32 c; .param .b64 d;\n"
					       ".param .b64 e; st.param.b64 [a], %m; st.param.b64 "
					       "[b], %m; st.param.b32 [c], 12;\n"
					       "st.param.b64 [d], %m; st.param.b64 [e], 1;\n"
					       "call __assertfail, (a, b, c, d, e); }\nret;\n}\n");
	expect_eq(harness_launch("k", 1, 1, 0), PTX_FAULTED);
	expect_eq(harness.report.fault, PTX_FAULT_ASSERT);
	expect_str(harness.printed,
		   "x:12: x: block: [0,0,0], thread: [0,0,0] Assertion `x` failed.\n");
}

TEST(sleeping_takes_modelled_time_and_the_clock_shows_it)
{
	/* Until the timer has advanced by 50 us, in steps of 10. */
	harness.now_ns = 1000;
	run(KERNEL(".reg .u64 %b, %n;\n.reg .u32 %r;\n.reg .pred %p;\nmov.u64 %b, %globaltimer;\n"
		   "mov.u32 %r, 0;\nL: nanosleep.u32 10000;\nadd.u32 %r, %r, 1;\n"
		   "mov.u64 %n, %globaltimer;\nsub.u64 %n, %n, %b;\nsetp.lt.u64 %p, %n, 50000;\n"
		   "@%p bra L;\n" STORE),
	    1, 32);
	expect_eq(words()[5], 5);
	expect_eq(harness.report.sleep_ns, 50000);
}

TEST(costs_stand_in_the_report_before_the_first_run)
{
	uint64_t params[2] = {1000, 7};
	struct ptx_launch launch = {
		.grid = {1, 1, 1}, .block = {1, 1, 1}, .params = params, .params_bytes = 16};
	struct ptx_grid *grid;

	harness_load(
		HARNESS_HEAD
		".visible .entry k(.param .u64 a, .param .u32 b) {\n"
		".pragma \"nounroll\";\n.pragma \"mete-cost-ns 500\";\n"
		".pragma \"mete-cost-ns-param 1 10\";\n.pragma \"mete-cost-bytes-param 0 12\";\n"
		".pragma \"mete-cost-bytes 5\";\nret;\n}\n");
	expect_eq(
		ptx_grid_new(ptx_module_kernel(harness.module, "k"), &launch, &harness.env, &grid),
		0);
	expect(ptx_grid_report(grid)->annotated);
	expect_eq(ptx_grid_report(grid)->cost_ns, 570);
	expect_eq(ptx_grid_report(grid)->cost_bytes, 12005);
	ptx_grid_free(grid);
	expect_eq(harness_try(HARNESS_HEAD
			      ".visible .entry k() { .pragma \"mete-cost-ns-param 0 1\"; }"),
		  PTX_INVALID);
	/* 2^64. */
	expect_eq(harness_try(
			  HARNESS_HEAD
			  ".visible .entry k() { .pragma \"mete-cost-ns 18446744073709551616\"; }"),
		  PTX_INVALID);
}

TEST(faults_name_address_line_and_thread)
{
	harness_load(KERNEL(".reg .u64 %a;\n.reg .pred %p;\nsetp.ne.u32 %p, %t, 37;\n@%p exit;\n"
			    "mov.u64 %a, 4096;\n\nst.global.u32 [%a+8], 1;\n"));
	expect_eq(harness_launch("k", 1, 64, 0), PTX_FAULTED);
	expect_eq(harness.report.fault, PTX_FAULT_ILLEGAL_ADDRESS);
	expect_eq(harness.report.fault_address, 4104);
	expect(harness.report.fault_write);
	expect_eq(harness.report.fault_thread[0], 37);
	expect_eq(harness.report.fault_line, 16);
	harness_load(KERNEL("trap;\n"));
	expect_eq(harness_launch("k", 1, 1, 0), PTX_FAULTED);
	expect_eq(harness.report.fault, PTX_FAULT_TRAP);
	harness_load(KERNEL("brkpt;\n"));
	expect_eq(harness_launch("k", 1, 1, 0), PTX_FAULTED);
	harness_load(KERNEL(".reg .u32 %r;\nld.global.u32 %r, [%in+2];\n"));
	expect_eq(harness_launch("k", 1, 32, 0), PTX_FAULTED);
	expect_eq(harness.report.fault, PTX_FAULT_MISALIGNED);
}

TEST(one_thread_that_goes_astray_is_found_among_good_ones)
{
	harness_load(KERNEL(
		".reg .u32 %r;\n.reg .u64 %o;\n.reg .pred %p;\nsetp.eq.u32 %p, %t, 9;\n"
		"mov.u64 %o, 0;\n@%p mov.u64 %o, 0x100000000;\nmad.wide.u32 %at, %t, 4, %in;\n"
		"add.u64 %at, %at, %o;\nld.global.u32 %r, [%at];\n"));
	expect_eq(harness_launch("k", 1, 32, 0), PTX_FAULTED);
	expect_eq(harness.report.fault_thread[0], 9);
}
