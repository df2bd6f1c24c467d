/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers, and blocks that wait for each other. */
#include "tests/unit/test_ptx_warp.h"

/* ---- blocks -------------------------------------------------------------------------------- */

TEST(a_barrier_waits_for_every_thread_of_the_block)
{
	run(KERNEL(".shared .align 4 .b8 s[1024];\n.reg .u32 %r, %x;\n.reg .u64 %a, %b;\n"
		   "mov.u64 %b, s;\nmad.wide.u32 %a, %t, 4, %b;\nst.shared.u32 [%a], %t;\n"
		   "bar.sync 0;\nxor.b32 %x, %t, 255;\nmad.wide.u32 %a, %x, 4, %b;\n"
		   "ld.shared.u32 %r, [%a];\n" STORE),
	    1, 256);
	for (unsigned t = 0; t < 256; t++)
		expect_eq(words()[t], 255 - t);
}

/* Three phases of a barrier in memory, waited for by state, by state with a count, by parity. */
TEST(a_barrier_in_memory_counts_its_phases)
{
	run(KERNEL(".shared .align 8 .b64 bar;\n.shared .align 4 .b8 s[512];\n"
		   ".reg .u32 %r, %x, %own;\n.reg .u64 %a, %b, %old;\n.reg .pred %p, %q;\n"
		   "setp.eq.u32 %p, %t, 0;\n@%p mbarrier.init.shared.b64 [bar], 128;\n"
		   "bar.sync 0;\nmov.u64 %b, s;\nmad.wide.u32 %a, %t, 4, %b;\n"
		   "xor.b32 %x, %t, 127;\nmad.wide.u32 %b, %x, 4, %b;\n"
		   "st.shared.u32 [%a], %t;\nmbarrier.arrive.shared.b64 %old, [bar];\n"
		   "W1: mbarrier.test_wait.shared.b64 %q, [bar], %old;\n@!%q bra W1;\n"
		   "ld.shared.u32 %r, [%b];\nbar.sync 0;\n"
		   /* the second phase: warp 0 arrives for all, four for each lane */
		   "setp.lt.u32 %p, %t, 32;\n@%p mbarrier.arrive.release.cta.shared::cta.b64 _, "
		   "[bar], 4;\n"
		   "W2: mbarrier.try_wait.parity.shared.b64 %q, [bar], 1;\n@!%q bra W2;\n"
		   /* the third: warps 1 to 3 leave for good, and warp 0 alone makes the fourth */
		   "@!%p mbarrier.arrive_drop.shared.b64 %old, [bar];\n"
		   "@%p mbarrier.arrive.shared.b64 %old, [bar];\n"
		   "W3: mbarrier.test_wait.parity.shared.b64 %q, [bar], 0;\n@!%q bra W3;\nbar.sync "
		   "0;\n"
		   "@!%p bra E;\nmbarrier.arrive.shared.b64 %old, [bar];\n"
		   "W4: mbarrier.try_wait.shared.b64 %q, [bar], %old, 100;\n@!%q bra W4;\n"
		   "add.u32 %r, %r, 1000;\nE: " STORE),
	    1, 128);
	for (unsigned t = 0; t < 128; t++)
		expect_eq(words()[t], 127 - t + (t < 32 ? 1000 : 0));
}

TEST(producers_arrive_and_consumers_wait)
{
	run(KERNEL(".shared .u32 s;\n.reg .u32 %r;\n.reg .pred %p;\nsetp.lt.u32 %p, %t, 32;\n"
		   "@%p bra P;\nbar.sync 3, 64;\nld.shared.u32 %r, [s];\n" STORE "bra E;\n"
		   "P: st.shared.u32 [s], 42;\nbarrier.cta.arrive 3, 64;\nE:\n"),
	    1, 64);
	expect_eq(words()[40], 42);
	expect_eq(words()[4], 0);
}

TEST(a_barrier_reduces_predicates)
{
	run(KERNEL(".reg .u32 %r, %x;\n.reg .pred %p, %q;\nsetp.lt.u32 %p, %t, 50;\n"
		   "bar.red.popc.u32 %r, 0, %p;\nbarrier.red.popc.aligned.u32 %x, 1, 64, !%p;\n"
		   "mad.lo.u32 %r, %x, 1000, %r;\n"
		   "bar.red.and.pred %q, 0, %p;\n@%q add.u32 %r, %r, 100000;\n"
		   "bar.red.or.pred %q, 2, !%p;\n@%q add.u32 %r, %r, 200000;\n"
		   "barrier.red.and.pred %q, 0, %p;\n@%q add.u32 %r, %r, 400000;\n"
		   "barrier.red.or.pred %q, 2, !%p;\n@%q add.u32 %r, %r, 800000;\n" STORE),
	    1, 64);
	expect_eq(words()[63], 50 + 14 * 1000 + 1000000);
}

TEST(a_thread_that_has_left_holds_up_no_barrier)
{
	run(KERNEL(".reg .u32 %r;\n.reg .pred %p;\nsetp.ge.u32 %p, %t, 70;\n@%p exit;\nbar.sync "
		   "0;\n"
		   "barrier.sync 1;\nmov.u32 %r, 9;\n" STORE),
	    1, 128);
	expect_eq(words()[69], 9);
	expect_eq(words()[70], 0);
}

TEST(a_barrier_that_nobody_can_complete_is_a_deadlock)
{
	harness_load(KERNEL(".reg .pred %p;\nsetp.ge.u32 %p, %t, 32;\n@%p bra B;\nbar.sync 0, 64;\n"
			    "B: bar.sync 1, 64;\n"));
	expect_eq(harness_launch("k", 1, 64, 0), PTX_FAULTED);
	expect_eq(harness.report.fault, PTX_FAULT_DEADLOCK);
}

TEST(blocks_wait_for_each_other_when_they_are_resident)
{
	/* A barrier across the grid: count up, then poll. */
	run(KERNEL(".reg .u32 %r, %n;\n.reg .pred %p;\natom.global.add.u32 %r, [%in], 1;\n"
		   "mov.u32 %n, %nctaid.x;\nL: ld.acquire.gpu.global.u32 %r, [%in];\n"
		   "setp.lt.u32 %p, %r, %n;\n@%p bra L;\natom.global.add.u32 %r, [%in+4], 1;\n"),
	    8, 1);
	expect_eq(words()[1], 8);
}

TEST(dynamic_shared_memory_follows_the_static)
{
	harness_load(
		".version 7.0\n.target sm_70\n.address_size 64\n"
		".extern .shared .align 16 .b8 dyn[];\n"
		".visible .entry k(.param .u64 p0) {\n.shared .align 4 .b8 own[100];\n"
		".reg .u64 %in;\n.reg .u32 %r, %s;\nld.param.u64 %in, [p0];\n"
		"st.shared.u32 [own+96], 5;\nst.shared.u32 [dyn], 6;\nst.shared.u32 [dyn+252], 7;\n"
		"ld.shared.u32 %r, [own+96];\nmov.u32 %s, %dynamic_smem_size;\n"
		"add.u32 %r, %r, %s;\nst.global.u32 [%in], %r;\nret;\n}\n");
	expect_eq(ptx_module_kernel(harness.module, "k")->shared_bytes, 100);
	expect_eq(harness_launch("k", 1, 1, 256), 0);
	expect_eq(words()[0], 261);
	expect_eq(harness_launch("k", 1, 1, 128), PTX_FAULTED);
	expect_eq(harness.report.fault, PTX_FAULT_ILLEGAL_ADDRESS);
	expect_eq(harness_launch("k", 1, 1, 1 << 20), 100 + PTX_NO_RESOURCES);
}
