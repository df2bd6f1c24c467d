/* SPDX-License-Identifier: Apache-2.0 */
/* The module of runtime_load.c: add(at, n, by) adds `by` to every 1,024th of n * 1,024 words. */
#pragma once

static const char runtime_ptx[] =
	".version 6.0\n"
	".target sm_50\n"
	".address_size 64\n"
	".visible .entry add(.param .u64 at, .param .u32 n, .param .u32 by)\n"
	"{\n"
	".reg .pred %p;\n"
	".reg .b32 %r<8>;\n"
	".reg .b64 %d<4>;\n"
	"ld.param.u64 %d1, [at];\n"
	"ld.param.u32 %r1, [n];\n"
	"ld.param.u32 %r2, [by];\n"
	"mov.u32 %r3, %ctaid.x;\n"
	"mov.u32 %r4, %ntid.x;\n"
	"mov.u32 %r5, %tid.x;\n"
	"mad.lo.s32 %r6, %r3, %r4, %r5;\n"
	"setp.ge.u32 %p, %r6, %r1;\n"
	"@%p bra done;\n"
	"mul.wide.u32 %d2, %r6, 4096;\n"
	"add.s64 %d3, %d1, %d2;\n"
	"ld.global.u32 %r7, [%d3];\n"
	"add.u32 %r7, %r7, %r2;\n"
	"st.global.u32 [%d3], %r7;\n"
	"done:\n"
	"ret;\n"
	"}\n";
