/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel of movable_hash.c, for its one user and for tests: mete_hash_block(at, pieces of 64
 * bytes, out: two words that are added to). */
#pragma once

/*
 * The hash of 16 bytes (w0, w1) at a place is the 128 bits of (w0 + k0) * (w1 + k1), with keys
 * that no other place has. Low and high halves are summed, so the order does not matter. A changed
 * word changes the sum, because its partner plus key is zero only once in 2^64.
 */
#define MOVABLE_HASH_PAIR(at, key0, key1)                                                          \
	"ld.global.v2.u64 {%d14, %d15}, [%d0+" at "];\n"                                           \
	"add.u64 %d14, %d14, %d12;\n"                                                              \
	"add.u64 %d15, %d15, %d13;\n"                                                              \
	"add.u64 %d14, %d14, " key0 ";\n"                                                          \
	"add.u64 %d15, %d15, " key1 ";\n"                                                          \
	"mul.lo.u64 %d16, %d14, %d15;\n"                                                           \
	"mul.hi.u64 %d17, %d14, %d15;\n"                                                           \
	"add.u64 %d5, %d5, %d16;\n"                                                                \
	"add.u64 %d6, %d6, %d17;\n"

static const char movable_hash_text[] =
	".version 6.0\n"
	".target sm_50\n"
	".address_size 64\n"
	".visible .global .align 16 .u64 mete_hash[4];\n"
	".visible .entry mete_hash_block(.param .u64 at, .param .u64 pieces, .param .u64 out)\n"
	"{\n"
	".reg .pred %p;\n"
	".reg .b32 %r<4>;\n"
	".reg .b64 %d<20>;\n"
	"ld.param.u64 %d0, [at];\n"
	"ld.param.u64 %d1, [pieces];\n"
	"ld.param.u64 %d2, [out];\n"
	"mov.u32 %r0, %ctaid.x;\n"
	"mov.u32 %r1, %ntid.x;\n"
	"mov.u32 %r2, %tid.x;\n"
	"mov.u32 %r3, %nctaid.x;\n"
	"mad.lo.u32 %r2, %r0, %r1, %r2;\n"
	"mul.lo.u32 %r3, %r3, %r1;\n"
	"cvt.u64.u32 %d3, %r2;\n"
	"cvt.u64.u32 %d4, %r3;\n"
	"mov.u64 %d5, 0;\n"
	"mov.u64 %d6, 0;\n"
	"mov.u64 %d7, 0x9e3779b97f4a7c15;\n"
	"mov.u64 %d8, 0xd1b54a32d192ed03;\n"
	"shl.b64 %d9, %d3, 6;\n"
	"add.u64 %d0, %d0, %d9;\n"
	"shl.b64 %d9, %d4, 6;\n"
	"mul.lo.u64 %d12, %d3, %d7;\n"
	"mul.lo.u64 %d13, %d3, %d8;\n"
	"mul.lo.u64 %d10, %d4, %d7;\n"
	"mul.lo.u64 %d11, %d4, %d8;\n"
	"again:\n"
	"setp.ge.u64 %p, %d3, %d1;\n"
	"@%p bra done;\n" MOVABLE_HASH_PAIR("0", "0x243f6a8885a308d3", "0x13198a2e03707344")
		MOVABLE_HASH_PAIR("16", "0xa4093822299f31d0",
				  "0x082efa98ec4e6c89") MOVABLE_HASH_PAIR("32",
									  "0x452821e638d01377",
									  "0xbe5466cf34e90c6c")
			MOVABLE_HASH_PAIR(
				"48", "0xc0ac29b7c97c50dd",
				"0x3f84d5b5b5470917") "add.u64 %d0, %d0, %d9;\n"
						      "add.u64 %d3, %d3, %d4;\n"
						      "add.u64 %d12, %d12, %d10;\n"
						      "add.u64 %d13, %d13, %d11;\n"
						      "bra again;\n"
						      "done:\n"
						      "atom.global.add.u64 %d16, [%d2], %d5;\n"
						      "atom.global.add.u64 %d17, [%d2+8], %d6;\n"
						      "ret;\n"
						      "}\n";

#undef MOVABLE_HASH_PAIR
