/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What oversize measures: circle plain|managed BYTES ROUNDS. Holds so much memory in pieces, and
 * has kernels write to every page of it, piece after piece, again and again: the pattern that a
 * pager likes least. Prints the microseconds of a round, the first one aside.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda/prototypes.h"

enum {
	PAGE = 2 << 20,
	PAGES = 8, /* of a piece */
	PIECES = 4096,
};

/* Each thread writes to its own page. */
static const char ptx[] = ".version 7.0\n.target sm_50\n.address_size 64\n"
			  ".visible .entry touch(.param .u64 at)\n{\n"
			  ".reg .u64 %a, %b;\n.reg .u32 %t;\n"
			  "ld.param.u64 %a, [at];\nmov.u32 %t, %tid.x;\n"
			  "mul.wide.u32 %b, %t, 2097152;\nadd.u64 %a, %a, %b;\n"
			  "st.global.u32 [%a], %t;\nret;\n}\n";

static void *driver;

#define CALL(symbol) ((api_fn_##symbol *)dlsym(driver, #symbol))

static void must(CUresult r, const char *what)
{
	if (r == CUDA_SUCCESS)
		return;
	fprintf(stderr, "circle: %s failed: %d\n", what, (int)r);
	exit(1);
}

static double now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void go_round(CUfunction touch, CUdeviceptr *piece, size_t pieces)
{
	for (size_t i = 0; i < pieces; i++)
		must(CALL(cuLaunchKernel)(touch, 1, 1, 1, PAGES, 1, 1, 0, NULL,
					  (void *[]){&piece[i]}, NULL),
		     "cuLaunchKernel");
	must(CALL(cuCtxSynchronize)(), "cuCtxSynchronize");
}

int main(int argc, char **argv)
{
	static CUdeviceptr piece[PIECES];
	size_t pieces = argc == 4 ? strtoull(argv[2], NULL, 10) / PAGE / PAGES : 0;
	bool managed = argc == 4 && strcmp(argv[1], "managed") == 0;
	unsigned long rounds = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
	CUfunction touch;
	CUcontext context;
	CUmodule module;
	double begun;

	driver = dlopen("libcuda.so.1", RTLD_NOW);
	if (!driver || !pieces || pieces > PIECES || !rounds) {
		fprintf(stderr, "usage: circle plain|managed BYTES ROUNDS, with a driver\n");
		return 2;
	}
	must(CALL(cuInit)(0), "cuInit");
	must(CALL(cuCtxCreate_v2)(&context, 0, 0), "cuCtxCreate");
	must(CALL(cuModuleLoadData)(&module, ptx), "cuModuleLoadData");
	must(CALL(cuModuleGetFunction)(&touch, module, "touch"), "cuModuleGetFunction");
	for (size_t i = 0; i < pieces; i++)
		must(managed ? CALL(cuMemAllocManaged)(&piece[i], PAGE * PAGES,
						       CU_MEM_ATTACH_GLOBAL)
			     : CALL(cuMemAlloc_v2)(&piece[i], PAGE * PAGES),
		     "allocating");
	go_round(touch, piece, pieces);
	begun = now_us();
	for (unsigned long i = 0; i < rounds; i++)
		go_round(touch, piece, pieces);
	printf("%.0f\n", (now_us() - begun) / (double)rounds);
	return 0;
}
