/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/sim/node.h"

#include <ftw.h>
#include <stdlib.h>

static char folder[] = "/tmp/mete-node-XXXXXX";
static pid_t owner;

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
	(void)about, (void)kind, (void)where;
	return remove(path);
}

static __attribute__((destructor)) void node_end(void)
{
	if (owner == getpid())
		nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static __attribute__((constructor)) void node_start(void)
{
	/* A child that was executed by a test belongs to its parent's node. */
	if (getenv("METE_TEST_NODE"))
		return;
	if (!mkdtemp(folder))
		abort();
	owner = getpid();
	setenv("METE_TEST_NODE", folder, 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	setenv("METE_SIM_DIR", folder, 1);
	setenv("METE_SIM_CONTEXT_COST", "0", 1);
	setenv("METE_SIM_CREATE_COST", "0", 1);
	setenv("METE_SIM_MAP_COST", "0", 1);
	setenv("METE_SIM_UNMAP_COST", "0", 1);
	setenv("METE_SIM_PATTERN", "on", 1);
}

CUcontext node_context(void)
{
	CUcontext context;

	expect_ok(cuInit(0));
	expect_ok(cuCtxCreate_v2(&context, 0, 0));
	return context;
}

size_t node_free_bytes(void)
{
	size_t available, total;

	expect_ok(cuMemGetInfo_v2(&available, &total));
	return available;
}

/* add(address, n, value): adds to n words. store(address): writes 7 there. spin(address): until the
 * word is not 0. counter: a variable, 5 at first, and bump() adds 1 to it. */
const char node_ptx[] = "\
.version 6.5\n\
.target sm_70\n\
.address_size 64\n\
.visible .global .align 4 .u32 counter = 5;\n\
.visible .entry add(.param .u64 address, .param .u32 n, .param .u32 value)\n\
{\n\
	.reg .pred %p;\n\
	.reg .b32 %r<8>;\n\
	.reg .b64 %rd<4>;\n\
	ld.param.u64 %rd1, [address];\n\
	ld.param.u32 %r1, [n];\n\
	ld.param.u32 %r2, [value];\n\
	mov.u32 %r3, %ctaid.x;\n\
	mov.u32 %r4, %ntid.x;\n\
	mov.u32 %r5, %tid.x;\n\
	mad.lo.s32 %r6, %r3, %r4, %r5;\n\
	setp.ge.u32 %p, %r6, %r1;\n\
	@%p bra DONE;\n\
	cvta.to.global.u64 %rd1, %rd1;\n\
	mul.wide.u32 %rd2, %r6, 4;\n\
	add.s64 %rd3, %rd1, %rd2;\n\
	ld.global.u32 %r7, [%rd3];\n\
	add.s32 %r7, %r7, %r2;\n\
	st.global.u32 [%rd3], %r7;\n\
DONE:\n\
	ret;\n\
}\n\
.visible .entry store(.param .u64 address)\n\
{\n\
	.reg .b32 %r<2>;\n\
	.reg .b64 %rd<2>;\n\
	ld.param.u64 %rd1, [address];\n\
	mov.u32 %r1, 7;\n\
	st.global.u32 [%rd1], %r1;\n\
	ret;\n\
}\n\
.visible .entry spin(.param .u64 address)\n\
{\n\
	.reg .pred %p;\n\
	.reg .b32 %r<2>;\n\
	.reg .b64 %rd<2>;\n\
	ld.param.u64 %rd1, [address];\n\
AGAIN:\n\
	ld.volatile.global.u32 %r1, [%rd1];\n\
	setp.eq.u32 %p, %r1, 0;\n\
	@%p bra AGAIN;\n\
	ret;\n\
}\n\
.visible .entry bump()\n\
{\n\
	.reg .b32 %r<2>;\n\
	ld.global.u32 %r1, [counter];\n\
	add.u32 %r1, %r1, 1;\n\
	st.global.u32 [counter], %r1;\n\
	ret;\n\
}\n";

CUmodule node_module(void)
{
	CUmodule module;

	expect_ok(cuModuleLoadData(&module, node_ptx));
	return module;
}

CUfunction node_kernel(CUmodule module, const char *name)
{
	CUfunction function;

	expect_ok(cuModuleGetFunction(&function, module, name));
	return function;
}
