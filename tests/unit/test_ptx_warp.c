/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes, and the addresses and registers that they have. */
#include "tests/unit/test_ptx_warp.h"

/* ---- lanes --------------------------------------------------------------------------------- */

TEST(lanes_that_came_apart_meet_again)
{
	/* Each lane loops as often as its index says; then all are there for the ballot. */
	run(KERNEL(".reg .u32 %r, %i;\n.reg .pred %p;\nmov.u32 %i, 0;\nmov.u32 %r, 0;\n"
		   "L: setp.ge.u32 %p, %i, %t;\n@%p bra E;\nadd.u32 %r, %r, %i;\n"
		   "add.u32 %i, %i, 1;\nbra L;\nE: activemask.b32 %i;\n"
		   "setp.ne.u32 %p, %i, 0xffffffff;\n@%p mov.u32 %r, 77;\n" STORE),
	    1, 32);
	for (uint32_t t = 0; t < 32; t++)
		expect_eq(words()[t], t * (t - 1) / 2);
}

TEST(both_sides_of_a_branch_run_with_their_own_lanes)
{
	run(KERNEL(".reg .u32 %r;\n.reg .pred %p;\nand.b32 %r, %t, 1;\nsetp.eq.u32 %p, %r, 1;\n"
		   "@%p bra ODD;\nactivemask.b32 %r;\nbra.uni JOIN;\n"
		   "ODD: activemask.b32 %r;\nJOIN:\n" STORE),
	    1, 32);
	for (uint32_t t = 0; t < 32; t++)
		expect_eq(words()[t], t & 1 ? 0xaaaaaaaa : 0x55555555);
}

TEST(a_warp_that_is_not_full_has_no_other_lanes)
{
	run(KERNEL(".reg .u32 %r;\n.reg .pred %p;\nsetp.ge.u32 %p, %t, 0;\n"
		   "vote.sync.ballot.b32 %r, %p, 0xffffffff;\n" STORE),
	    1, 40);
	expect_eq(words()[0], 0xffffffff);
	expect_eq(words()[32], 0xff);
}

/* Instructions of a warp without .sync ended with sm_70. */
static void before_sync(char *text)
{
	static const char head[] = ".version 6.0\n.target sm_60\n";

	memcpy(text, head, strlen(head));
}

TEST(shuffles_take_from_the_lane_that_they_name)
{
	static const char *const modes[] = {"up", "down", "bfly", "idx"};
	char text[2048];

	for (unsigned m = 0; m < 8; m++) {
		for (unsigned c = 0; c < 2; c++) {
			uint32_t control = (c ? 0x1800u : 0) | (m % 4 ? 31 : 0), by = 3 + 7 * c;

			snprintf(text, sizeof(text),
				 "%s"
				 ".reg .u32 %%r, %%v;\n.reg .pred %%p;\n"
				 "mul.lo.u32 %%v, %%t, 3;\nshfl.%s%s.b32 %%r|%%p, "
				 "%%v, %u, %u%s;\n"
				 "@!%%p add.u32 %%r, %%r, 1000;\n%s"
				 "ret;\n}\n",
				 START, m < 4 ? "sync." : "", modes[m % 4], by, control,
				 m < 4 ? ", -1" : "", STORE);
			if (m >= 4)
				before_sync(text);
			run(text, 1, 32);
			for (uint32_t l = 0; l < 32; l++) {
				uint32_t first = c ? l & 24 : 0, last = c ? first + 7 : 31;
				int64_t from = m % 4 == 0   ? (int64_t)l - by % 32
					       : m % 4 == 1 ? (int64_t)l + by
					       : m % 4 == 2
						       ? (int64_t)(l ^ by)
						       : (int64_t)(first | (by & (last - first)));
				bool inside = m % 4 == 0 ? from >= first : from <= last;

				expect_eq(words()[l], inside ? 3 * from : 3 * l + 1000);
			}
		}
	}
}

TEST(votes_count_the_lanes_of_their_mask)
{
	static const struct {
		const char *name;
		bool some, all; /* what they say of a mixture, and of agreement on true */
	} votes[] = {{"all", false, true}, {"any", true, true}, {"uni", false, true}};
	char text[2048];

	for (unsigned v = 0; v < ARRAY_SIZE(votes); v++) {
		for (unsigned sync = 0; sync < 2; sync++) {
			for (unsigned n = 0; n < 2; n++) {
				snprintf(text, sizeof(text),
					 "%s"
					 ".reg .u32 %%r;\n.reg .pred %%p, %%q;\n"
					 "setp.lt.u32 %%p, %%t, %u;\nvote.%s%s.pred "
					 "%%q, %%p%s;\n"
					 "selp.u32 %%r, 1, 0, %%q;\n%sret;\n}\n",
					 START, n ? 32 : 5, sync ? "sync." : "", votes[v].name,
					 sync ? ", 0xffffffff" : "", STORE);
				if (!sync)
					before_sync(text);
				run(text, 1, 32);
				expect_eq(words()[7], n ? votes[v].all : votes[v].some);
			}
		}
	}
	snprintf(text, sizeof(text), "%s",
		 KERNEL(".reg .u32 %r;\n.reg .pred %p;\nsetp.lt.u32 %p, %t, 5;\n"
			"vote.ballot.b32 %r, !%p;\n" STORE));
	before_sync(text);
	run(text, 1, 32);
	expect_eq(words()[0], 0xffffffe0);
}

TEST(lanes_with_equal_values_find_each_other)
{
	for (unsigned bits = 32; bits <= 64; bits += 32) {
		char text[2048];

		snprintf(text, sizeof(text),
			 "%s"
			 ".reg .u32 %%r, %%v, %%s;\n.reg .b64 %%w;\n"
			 ".reg .pred %%p;\nand.b32 %%v, %%t, 3;\ncvt.u64.u32 %%w, "
			 "%%v;\n"
			 "match.any.sync.b%u %%r, %%%c, -1;\nmatch.all.sync.b%u "
			 "%%s|%%p, %%%c, -1;\n"
			 "@%%p mov.u32 %%r, 7;\nadd.u32 %%r, %%r, %%s;\n%sret;\n}\n",
			 START, bits, bits == 32 ? 'v' : 'w', bits, bits == 32 ? 'v' : 'w', STORE);
		run(text, 1, 32);
		for (unsigned t = 0; t < 32; t++)
			expect_eq(words()[t], 0x11111111u << (t & 3));
	}
	run(KERNEL(".reg .u32 %r;\n.reg .pred %p;\nmatch.all.sync.b32 %r|%p, 5, 0xffffffff;\n"
		   "@!%p mov.u32 %r, 7;\n" STORE),
	    1, 32);
	expect_eq(words()[9], 0xffffffff);
}

TEST(a_warp_reduces_to_one_value)
{
	static const struct {
		const char *name;
		uint32_t wanted;
	} all[] = {{"add.u32", 0xfffffe10 + 0},
		   {"add.s32", 0xfffffe10},
		   {"min.u32", 0},
		   {"min.s32", (uint32_t)-31},
		   {"max.u32", (uint32_t)-1},
		   {"max.s32", 0},
		   {"and.b32", 0},
		   {"or.b32", 0xffffffff},
		   {"xor.b32", 0}};
	uint32_t x = 0;
	char text[2048];

	for (int l = 0; l < 32; l++)
		x ^= (uint32_t)-l;
	for (size_t n = 0; n < ARRAY_SIZE(all); n++) {
		snprintf(text, sizeof(text),
			 "%s"
			 ".reg .u32 %%r;\nneg.s32 %%r, %%t;\n"
			 "redux.sync.%s %%r, %%r, -1;\n%sret;\n}\n",
			 START, all[n].name, STORE);
		run(text, 1, 32);
		expect_eq(words()[3], n == 8 ? x : all[n].wanted);
	}
	run(KERNEL(".reg .u32 %r;\n.reg .pred %p;\nelect.sync %r|%p, 0xfffffff0;\n"
		   "@%p add.u32 %r, %r, 100;\n" STORE),
	    1, 32);
	expect_eq(words()[4], 104);
	expect_eq(words()[5], 4);
}

/* A has a one in row r, column (3 r) mod 16: rows of B come out in that order, plus C. */
TEST(a_warp_multiplies_matrices)
{
	run(KERNEL(".reg .b32 %r<20>, %row, %two, %i, %col;\n.reg .f32 %f<5>;\n.reg .pred %p;\n"
		   ".reg .b16 %h, %o;\n.reg .b64 %x;\n"
		   "shr.u32 %row, %t, 2;\nand.b32 %two, %t, 3;\nshl.b32 %two, %two, 1;\n"
		   "mov.u32 %i, 0;\n"
		   /* b[k][n] = 16 n + k, exact in f16 */
		   "mad.lo.u32 %r8, %row, 16, %two;\ncvt.rn.f16.u32 %h, %r8;\nadd.u32 %r8, %r8, "
		   "1;\n"
		   "cvt.rn.f16.u32 %o, %r8;\nmov.b32 %r4, {%h, %o};\nadd.u32 %r8, %r8, 7;\n"
		   "cvt.rn.f16.u32 %h, %r8;\nadd.u32 %r8, %r8, 1;\ncvt.rn.f16.u32 %o, %r8;\n"
		   "mov.b32 %r5, {%h, %o};\n"
		   /* four registers of A: rows row, row + 8, columns two, two + 8 */
		   "mov.u32 %r0, 0;\nmov.u32 %r1, 0;\nmov.u32 %r2, 0;\nmov.u32 %r3, 0;\n"
		   "mul.lo.u32 %col, %row, 3;\nand.b32 %col, %col, 15;\nsub.u32 %i, %col, %two;\n"
		   "setp.eq.u32 %p, %i, 0;\n@%p mov.u32 %r0, 0x3c00;\nsetp.eq.u32 %p, %i, 1;\n"
		   "@%p mov.u32 %r0, 0x3c000000;\nsetp.eq.u32 %p, %i, 8;\n@%p mov.u32 %r2, "
		   "0x3c00;\n"
		   "setp.eq.u32 %p, %i, 9;\n@%p mov.u32 %r2, 0x3c000000;\n"
		   "add.u32 %col, %row, 8;\nmul.lo.u32 %col, %col, 3;\nand.b32 %col, %col, 15;\n"
		   "sub.u32 %i, %col, %two;\n"
		   "setp.eq.u32 %p, %i, 0;\n@%p mov.u32 %r1, 0x3c00;\nsetp.eq.u32 %p, %i, 1;\n"
		   "@%p mov.u32 %r1, 0x3c000000;\nsetp.eq.u32 %p, %i, 8;\n@%p mov.u32 %r3, "
		   "0x3c00;\n"
		   "setp.eq.u32 %p, %i, 9;\n@%p mov.u32 %r3, 0x3c000000;\n"
		   "mov.f32 %f0, 0f3F000000;\n"
		   "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, "
		   "{%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f0, %f0, %f0};\n"
		   "mad.wide.u32 %at, %t, 16, %in;\nst.global.v4.f32 [%at], {%f1, %f2, %f3, "
		   "%f4};\n"),
	    1, 32);
	for (unsigned t = 0; t < 32; t++) {
		for (unsigned r = 0; r < 4; r++) {
			unsigned row = t / 4 + r / 2 * 8, column = t % 4 * 2 + r % 2;

			expect_eq(2 * ((const float *)harness_data())[4 * t + r],
				  2 * (16 * column + 3 * row % 16) + 1);
		}
	}
}

TEST(a_sync_instruction_waits_for_the_lanes_of_its_mask)
{
	/* The odd lanes come to the shuffle by a longer way. */
	run(KERNEL(".reg .u32 %r, %i;\n.reg .pred %p;\nand.b32 %r, %t, 1;\nsetp.eq.u32 %p, %r, 0;\n"
		   "@%p bra MEET;\nmov.u32 %i, 0;\nL: add.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, "
		   "5000;\n"
		   "@%p bra L;\nMEET: bar.warp.sync 0xffffffff;\n"
		   "shfl.sync.bfly.b32 %r, %t, 1, 31, 0xffffffff;\n" STORE),
	    1, 32);
	for (unsigned t = 0; t < 32; t++)
		expect_eq(words()[t], t ^ 1);
}

/* As tiles of a cooperative group: the halves of a warp name their own lanes. */
TEST(lanes_that_name_different_members_do_not_hear_each_other)
{
	/* Together at first; then the lanes 20 to 31 come by a longer way and their half waits. */
	run(KERNEL(".reg .u32 %r, %m, %x, %y, %i;\n.reg .pred %p, %q;\n"
		   "setp.lt.u32 %p, %t, 16;\nselp.u32 %m, 0x0000ffff, 0xffff0000, %p;\n"
		   "redux.sync.add.u32 %r, %t, %m;\n"
		   "and.b32 %x, %t, 1;\nsetp.ne.u32 %q, %x, 0;\n"
		   "vote.sync.ballot.b32 %x, %q, %m;\nmul.lo.u32 %x, %x, 3;\n"
		   "add.u32 %r, %r, %x;\nsetp.lt.u32 %q, %t, 20;\n@%q bra MEET;\nmov.u32 %i, 0;\n"
		   "L: add.u32 %i, %i, 1;\nsetp.lt.u32 %q, %i, 5000;\n@%q bra L;\n"
		   "MEET: match.any.sync.b32 %y, 7, %m;\nmul.lo.u32 %y, %y, 5;\n"
		   "add.u32 %r, %r, %y;\n" STORE),
	    1, 32);
	for (unsigned t = 0; t < 32; t++) {
		uint32_t half = t < 16 ? 0xffffu : 0xffff0000u;

		expect_eq(words()[t], (t < 16 ? 120 : 376) + (half & 0xaaaaaaaau) * 3 + half * 5);
	}
}

TEST(a_lane_may_wait_for_a_lock_that_another_lane_of_its_warp_holds)
{
	run(KERNEL(".reg .u32 %r, %o;\n.reg .pred %p;\n"
		   "L: atom.global.cas.b32 %o, [%in], 0, 1;\nsetp.ne.u32 %p, %o, 0;\n@%p bra L;\n"
		   "ld.volatile.global.u32 %r, [%in+4];\nadd.u32 %r, %r, 1;\n"
		   "st.volatile.global.u32 [%in+4], %r;\nmembar.gl;\nst.volatile.global.u32 [%in], "
		   "0;\n"),
	    4, 96);
	expect_eq(words()[1], 4 * 96);
}

/* ---- addresses and moves ------------------------------------------------------------------ */

TEST(generic_addresses_lead_to_every_memory)
{
	run(KERNEL(".shared .u32 s;\n.local .u32 l;\n.reg .u64 %a, %b;\n.reg .u32 %r, %x;\n.reg "
		   ".pred %p;\n"
		   "mov.u64 %a, s;\ncvta.shared.u64 %a, %a;\nst.u32 [%a], 5;\nmov.u64 %b, l;\n"
		   "cvta.local.u64 %b, %b;\nst.u32 [%b], %t;\nld.shared.u32 %r, [s];\n"
		   "ld.local.u32 %x, [l];\nadd.u32 %r, %r, %x;\nisspacep.shared %p, %a;\n"
		   "@%p add.u32 %r, %r, 100;\nisspacep.local %p, %b;\n@%p add.u32 %r, %r, 200;\n"
		   "isspacep.global %p, %in;\n@%p add.u32 %r, %r, 400;\nisspacep.global %p, %a;\n"
		   "@%p add.u32 %r, %r, 800;\ncvta.to.shared.u64 %a, %a;\nld.shared.u32 %x, [%a];\n"
		   "add.u32 %r, %r, %x;\ncvta.param.u64 %a, p0;\nld.u64 %b, [%a];\n"
		   "setp.eq.u64 %p, %b, %in;\n@%p add.u32 %r, %r, 1600;\n" STORE),
	    1, 32);
	for (unsigned t = 0; t < 32; t++)
		expect_eq(words()[t], 10 + t + 700 + 1600);
}

TEST(vectors_are_packed_and_unpacked_by_mov)
{
	run(KERNEL(".reg .b64 %d;\n.reg .b32 %r, %x, %y;\n.reg .b16 %h<4>;\n.reg .v2 .u32 %v;\n"
		   "mov.b64 %d, {%t, 5};\nmov.b64 {%x, %y}, %d;\nmov.v2.u32 %v, {%y, %x};\n"
		   "mov.u32 %r, %v.x;\nmov.u32 %v.y, 9;\nadd.u32 %r, %r, %v.y;\n"
		   "mov.b32 {%h0, %h1}, 0x20003;\nmov.b64 %d, {%h0, %h1, %h1, %h0};\n"
		   "mov.b64 {_, %x}, %d;\nadd.u32 %r, %r, %x;\n" STORE),
	    1, 4);
	expect_eq(words()[2], 5 + 9 + 0x30002);
}

/* Rows whose operands or effects are their own are all used by some text of this file or of
 * test_ptx_memory.c; those that only order or hint are tried here, for each spelling. */
TEST(hints_and_fences_change_nothing)
{
	static const char *const all[] = {
		"membar.cta;",
		"membar.gl;",
		"membar.sys;",
		"fence.sc.sys;",
		"fence.acq_rel.gpu;",
		"fence.cta;",
		"fence.acquire.cluster;",
		"fence.release.cta;",
		"fence.proxy.alias;",
		"fence.proxy.async;",
		"prefetch.global.L1 [%in];",
		"prefetch.L2 [%in];",
		"prefetch.local.L2 [%in];",
		"prefetchu.L1 [%in];",
		"discard.global.L2 [%in], 128;",
		"applypriority.global.L2::evict_normal [%in], 128;",
		"pmevent 3;",
		"pmevent.mask 0xff;",
		"griddepcontrol.wait;",
		"griddepcontrol.launch_dependents;",
		"barrier.cluster.arrive;\nbarrier.cluster.wait;",
		"barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;",
	};
	char text[2048];

	for (size_t n = 0; n < ARRAY_SIZE(all); n++) {
		snprintf(text, sizeof(text), "%s.reg .u32 %%r;\nmov.u32 %%r, 3;\n%s\n%sret;\n}\n",
			 HARNESS_HEAD HARNESS_KERNEL("k"), all[n], STORE);
		run(text, 1, 64);
		expect_eq(words()[63], 3);
	}
}

TEST(special_registers_give_the_threads_place)
{
	run(HARNESS_HEAD HARNESS_KERNEL(
		    "k") ".reg .u32 %r, %x;\n.reg .b16 %h;\n.reg .u64 %c, %d;\n.reg .pred %p;\n"
			 "mov.u32 %r, %laneid;\nmov.u32 %x, %warpid;\nmad.lo.u32 %r, %x, 100, %r;\n"
			 "mov.u32 %x, %ntid.x;\nmad.lo.u32 %r, %x, 1000, %r;\n"
			 "mov.u16 %h, %nctaid.y;\ncvt.u32.u16 %x, %h;\nadd.u32 %r, %r, "
			 "%x;\nmov.u32 %x, %lanemask_lt;\n"
			 "popc.b32 %x, %x;\nadd.u32 %r, %r, %x;\nmov.u64 %c, %clock64;\nmov.u64 "
			 "%d, %clock64;\n"
			 "setp.ge.u64 %p, %c, %d;\n@%p mov.u32 %r, 0;\nadd.u32 %r, %r, "
			 "WARP_SZ;\n" STORE "ret;\n}\n",
	    1, 64);
	expect_eq(words()[33], 64000 + 100 + 1 + 1 + 1 + 32);
}
