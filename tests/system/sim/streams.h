/* SPDX-License-Identifier: Apache-2.0 */
/*                                                tests/system/sim/streams.h
 * For tests of what runs when: a context and a few kernels on the program's node (node.c). A gate
 * is a word of host memory at which a stream waits, so that a test decides what runs when.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/prototypes.h"
#include "tests/system/sim/node.h"

#define ok(call)	     expect_eq(call, CUDA_SUCCESS)
#define answers(call, error) expect_eq(call, error)

/* add(p, n, k): p[i] += k. times(p, n, k): p[i] *= k. await(flag, out): waits until *flag is not 0,
 * then *out = *flag. slow(): takes 20 ms of modelled time. wild(): writes where nothing is. */
static const char sim_ptx[] =
	".version 6.0\n.target sm_60\n.address_size 64\n"
	".visible .entry add(.param .u64 p, .param .u32 n, .param .u32 k)\n{\n"
	".reg .u32 %i, %n, %k, %v, %b, %d;\n.reg .u64 %a, %o;\n.reg .pred %q;\n"
	"ld.param.u64 %a, [p];\nld.param.u32 %n, [n];\nld.param.u32 %k, [k];\n"
	"mov.u32 %b, %ctaid.x;\nmov.u32 %d, %ntid.x;\nmov.u32 %i, %tid.x;\n"
	"mad.lo.u32 %i, %b, %d, %i;\nsetp.ge.u32 %q, %i, %n;\n@%q bra DONE;\n"
	"mul.wide.u32 %o, %i, 4;\nadd.u64 %a, %a, %o;\nld.global.u32 %v, [%a];\n"
	"add.u32 %v, %v, %k;\nst.global.u32 [%a], %v;\nDONE:\nret;\n}\n"
	".visible .entry times(.param .u64 p, .param .u32 n, .param .u32 k)\n{\n"
	".reg .u32 %i, %n, %k, %v, %b, %d;\n.reg .u64 %a, %o;\n.reg .pred %q;\n"
	"ld.param.u64 %a, [p];\nld.param.u32 %n, [n];\nld.param.u32 %k, [k];\n"
	"mov.u32 %b, %ctaid.x;\nmov.u32 %d, %ntid.x;\nmov.u32 %i, %tid.x;\n"
	"mad.lo.u32 %i, %b, %d, %i;\nsetp.ge.u32 %q, %i, %n;\n@%q bra DONE;\n"
	"mul.wide.u32 %o, %i, 4;\nadd.u64 %a, %a, %o;\nld.global.u32 %v, [%a];\n"
	"mul.lo.u32 %v, %v, %k;\nst.global.u32 [%a], %v;\nDONE:\nret;\n}\n"
	".visible .entry await(.param .u64 flag, .param .u64 out)\n{\n"
	".reg .u32 %v;\n.reg .u64 %f, %o;\n.reg .pred %q;\n"
	"ld.param.u64 %f, [flag];\nld.param.u64 %o, [out];\n"
	"AGAIN:\nld.volatile.global.u32 %v, [%f];\nsetp.eq.u32 %q, %v, 0;\n@%q bra AGAIN;\n"
	"st.global.u32 [%o], %v;\nret;\n}\n"
	".visible .entry slow()\n{\n.pragma \"mete-cost-ns 20000000\";\nret;\n}\n"
	".visible .entry wild()\n{\n.reg .u32 %v;\n.reg .u64 %a;\n"
	"mov.u32 %v, 1;\nmov.u64 %a, 64;\nst.global.u32 [%a], %v;\nret;\n}\n";

struct sim {
	CUdevice device;
	CUcontext context;
	CUmodule module;
	CUfunction add, times, await, slow, wild;
};

static inline struct sim sim_begin(void)
{
	struct sim sim;

	ok(cuInit(0));
	ok(cuDeviceGet(&sim.device, 0));
	ok(cuCtxCreate_v2(&sim.context, 0, sim.device));
	ok(cuModuleLoadData(&sim.module, sim_ptx));
	ok(cuModuleGetFunction(&sim.add, sim.module, "add"));
	ok(cuModuleGetFunction(&sim.times, sim.module, "times"));
	ok(cuModuleGetFunction(&sim.await, sim.module, "await"));
	ok(cuModuleGetFunction(&sim.slow, sim.module, "slow"));
	ok(cuModuleGetFunction(&sim.wild, sim.module, "wild"));
	return sim;
}

static inline void sim_end(struct sim *sim)
{
	ok(cuCtxDestroy_v2(sim->context));
}

/* n words of device memory, all `value`; the legacy stream is idle afterwards. */
static inline CUdeviceptr sim_words(size_t n, unsigned value)
{
	CUdeviceptr address;

	ok(cuMemAlloc_v2(&address, 4 * n));
	ok(cuMemsetD32_v2(address, value, n));
	ok(cuStreamSynchronize(CU_STREAM_LEGACY));
	return address;
}

/* Reads one word without any stream: through a stream that waits for nobody. */
static inline unsigned sim_word(CUdeviceptr address)
{
	CUstream stream;
	unsigned word = 0;

	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ok(cuMemcpyDtoHAsync_v2(&word, address, 4, stream));
	ok(cuStreamSynchronize(stream));
	ok(cuStreamDestroy_v2(stream));
	return word;
}

/* One thread adds (or multiplies) one word. */
static inline CUresult sim_launch(CUfunction function, CUdeviceptr address, unsigned k,
				  CUstream stream)
{
	unsigned n = 1;
	void *params[] = {&address, &n, &k};

	return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

/* A kernel node of one thread. */
static inline CUDA_KERNEL_NODE_PARAMS_v1 first_form(CUfunction function, void **params)
{
	return (CUDA_KERNEL_NODE_PARAMS_v1){
		.func = function,
		.gridDimX = 1,
		.gridDimY = 1,
		.gridDimZ = 1,
		.blockDimX = 1,
		.blockDimY = 1,
		.blockDimZ = 1,
		.kernelParams = params,
	};
}

struct gate {
	_Atomic uint32_t *word;
	CUdeviceptr address;
};

static inline struct gate gate_new(void)
{
	struct gate gate;
	void *memory;

	ok(cuMemHostAlloc(&memory, 64, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
	memset(memory, 0, 64);
	gate.word = memory;
	ok(cuMemHostGetDevicePointer_v2(&gate.address, memory, 0));
	return gate;
}

static inline CUresult gate_close(struct gate *gate, CUstream stream)
{
	return cuStreamWaitValue32_v2(stream, gate->address, 1, CU_STREAM_WAIT_VALUE_GEQ);
}

static inline void gate_open(struct gate *gate)
{
	atomic_store(gate->word, 1);
}

static inline void gate_free(struct gate *gate)
{
	ok(cuMemFreeHost((void *)gate->word));
}
