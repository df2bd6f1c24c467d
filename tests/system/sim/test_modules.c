/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/system/sim/node.h"

TEST(a_module_has_its_kernels_and_variables)
{
	CUcontext context = node_context();
	CUmodule module = node_module();
	CUfunction function, all[8];
	CUdeviceptr address;
	const char *name;
	unsigned count, value;
	size_t bytes, offset;

	expect_ok(cuModuleGetFunctionCount(&count, module));
	expect_eq(count, 4);
	expect_ok(cuModuleEnumerateFunctions(all, 8, module));
	expect_ok(cuFuncGetName(&name, all[0]));
	expect_str(name, "add");
	expect_ok(cuModuleGetFunction(&function, module, "add"));
	expect(function == all[0]);
	expect_cuda(cuModuleGetFunction(&function, module, "sub"), CUDA_ERROR_NOT_FOUND);
	expect_ok(cuModuleGetGlobal_v2(&address, &bytes, module, "counter"));
	expect_eq(bytes, 4);
	expect_ok(cuMemcpyDtoH_v2(&value, address, 4));
	expect_eq(value, 5);
	expect_cuda(cuModuleGetGlobal_v2(&address, &bytes, module, "none"), CUDA_ERROR_NOT_FOUND);
	expect_ok(cuFuncGetParamInfo(all[0], 2, &offset, &bytes));
	expect_eq(offset, 12);
	expect_eq(bytes, 4);
	expect_cuda(cuFuncGetParamInfo(all[0], 3, &offset, &bytes), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuModuleUnload(module));
	expect_cuda(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
	expect_cuda(cuFuncGetName(&name, all[0]), CUDA_ERROR_INVALID_HANDLE);
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(variables_keep_their_values_between_launches)
{
	CUcontext context = node_context();
	CUmodule module = node_module();
	CUdeviceptr address;
	unsigned value;

	for (int i = 0; i < 3; i++)
		expect_ok(cuLaunchKernel(node_kernel(module, "bump"), 1, 1, 1, 1, 1, 1, 0, NULL,
					 NULL, NULL));
	expect_ok(cuModuleGetGlobal_v2(&address, NULL, module, "counter"));
	expect_ok(cuMemcpyDtoH_v2(&value, address, 4));
	expect_eq(value, 8);
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(bad_code_is_refused_with_a_reason)
{
	CUcontext context = node_context();
	const char *texture = ".version 6.5\n.target sm_70\n.address_size 64\n"
			      ".visible .entry k()\n{\n\tfrobnicate.u32 1;\n\tret;\n}\n";
	const char *newer = ".version 6.5\n.target sm_90\n.address_size 64\n"
			    ".visible .entry k()\n{\n\tret;\n}\n";
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	char log[400] = "";
	void *values[] = {log, (void *)sizeof(log)};
	CUmodule module;
	char elf[64] = "\177ELF";

	expect_cuda(cuModuleLoadDataEx(&module, texture, 2, options, values),
		    CUDA_ERROR_INVALID_PTX);
	expect(strstr(log, "frobnicate") != NULL);
	expect_eq((uintptr_t)values[1], strlen(log));
	expect_cuda(cuModuleLoadData(&module, newer), CUDA_ERROR_INVALID_PTX);
	expect_cuda(cuModuleLoadData(&module, elf), CUDA_ERROR_NO_BINARY_FOR_GPU);
	expect_cuda(cuModuleLoadData(&module, ""), CUDA_ERROR_INVALID_IMAGE);
	expect_cuda(cuModuleLoadData(&module, "int main(void) { return 0; }"),
		    CUDA_ERROR_INVALID_PTX);
	expect_cuda(cuModuleLoadData(&module, NULL), CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuModuleLoad(&module, "/does/not/exist"), CUDA_ERROR_FILE_NOT_FOUND);
	expect_ok(cuCtxDestroy_v2(context));
}

/* The other kernels of its module are a program's, too. */
TEST(a_kernel_with_surfaces_loads_and_is_not_launched)
{
	static const char text[] =
		".version 6.5\n.target sm_70\n.address_size 64\n"
		".func paint(.param .b64 s)\n{\n.reg .b64 %s;\n.reg .b32 %x, %y;\n"
		"ld.param.u64 %s, [s];\nmov.u32 %x, 0;\nmov.u32 %y, 1;\n"
		"sust.b.2d.v2.b32.trap [%s, {%x, %y}], {%x, %y};\nret;\n}\n"
		".visible .entry direct(.param .u64 s)\n{\n.reg .b64 %s;\n.reg .b32 %x;\n"
		"ld.param.u64 %s, [s];\nmov.u32 %x, 0;\n"
		"sust.b.1d.b8.clamp [%s, {%x}], {%x};\nret;\n}\n"
		".visible .entry by_call(.param .u64 s)\n{\n.reg .b64 %s;\n"
		"ld.param.u64 %s, [s];\n{\n.param .b64 p;\nst.param.b64 [p], %s;\n"
		"call.uni paint, (p);\n}\nret;\n}\n"
		".visible .entry other(.param .u64 p)\n{\n.reg .b64 %p;\n.reg .b32 %x;\n"
		"ld.param.u64 %p, [p];\nmov.u32 %x, 7;\nst.global.u32 [%p], %x;\nret;\n}\n";
	static const char unfinished[] = ".version 6.5\n.target sm_70\n.address_size 64\n"
					 ".visible .entry k()\n{\nsust.b.1d.b8.clamp [%s, {";
	CUcontext context = node_context();
	CUdeviceptr word;
	void *arguments[] = {&word};
	CUDA_KERNEL_NODE_PARAMS_v1 params = {.gridDimX = 1,
					     .gridDimY = 1,
					     .gridDimZ = 1,
					     .blockDimX = 1,
					     .blockDimY = 1,
					     .blockDimZ = 1,
					     .kernelParams = arguments};
	unsigned seen = 0;
	CUmodule module;
	CUfunction kernel;
	CUgraphNode node;
	CUgraph graph;

	expect_ok(cuModuleLoadData(&module, text));
	expect_ok(cuMemAlloc_v2(&word, 4));
	for (int i = 0; i < 2; i++) {
		expect_ok(cuModuleGetFunction(&kernel, module, i ? "direct" : "by_call"));
		expect_cuda(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL),
			    CUDA_ERROR_NOT_SUPPORTED);
	}
	expect_ok(cuGraphCreate(&graph, 0));
	params.func = kernel;
	expect_cuda(cuGraphAddKernelNode(&node, graph, NULL, 0, &params), CUDA_ERROR_NOT_SUPPORTED);
	/* The context is whole. */
	expect_ok(cuModuleGetFunction(&kernel, module, "other"));
	expect_ok(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
	expect_ok(cuMemcpyDtoH_v2(&seen, word, 4));
	expect_eq(seen, 7);
	expect_cuda(cuModuleLoadData(&module, unfinished), CUDA_ERROR_INVALID_PTX);
	expect_ok(cuCtxDestroy_v2(context));
}

/* A fat binary as nvcc writes it: a wrapper, a header, machine code, and PTX. */
static void fat_binary(char *out, const char *ptx, unsigned flags, size_t packed, size_t unpacked)
{
	char *entry = out + 16;
	unsigned magic = 0xba55ed50;

	memset(out, 0, 16 + 64 + 64);
	memcpy(out, &magic, 4);
	out[4] = 1;
	out[6] = 16;
	*(uint64_t *)(void *)(out + 8) = 64 + 64 + 64 + packed;
	*(uint16_t *)(void *)entry = 2;
	*(uint32_t *)(void *)(entry + 4) = 64;
	*(uint64_t *)(void *)(entry + 8) = 64;
	*(uint32_t *)(void *)(entry + 28) = 70;
	entry += 128;
	memset(entry, 0, 64);
	*(uint16_t *)(void *)entry = 1;
	*(uint32_t *)(void *)(entry + 4) = 64;
	*(uint64_t *)(void *)(entry + 8) = packed;
	*(uint32_t *)(void *)(entry + 16) = (uint32_t)packed;
	*(uint32_t *)(void *)(entry + 28) = 60;
	*(uint64_t *)(void *)(entry + 40) = flags;
	*(uint64_t *)(void *)(entry + 56) = unpacked;
	memcpy(entry + 64, ptx, packed);
}

/* LZ4 without a match: one run of literals. */
static size_t literals(char *out, const char *text, size_t bytes)
{
	char *at = out;
	size_t rest = bytes - 15;

	*at++ = (char)0xf0;
	for (; rest >= 255; rest -= 255)
		*at++ = (char)255;
	*at++ = (char)rest;
	memcpy(at, text, bytes);
	return (size_t)(at - out) + bytes;
}

TEST(ptx_is_found_in_fat_binaries)
{
	static _Alignas(8) char fat[8192], packed[8192];
	struct {
		unsigned magic, version;
		const void *data, *name;
	} wrapper = {0x466243b1, 1, fat, NULL};
	CUcontext context = node_context();
	size_t bytes = strlen(node_ptx) + 1;
	CUmodule module;

	fat_binary(fat, node_ptx, 0x11, bytes, 0);
	expect_ok(cuModuleLoadFatBinary(&module, fat));
	node_kernel(module, "store");
	expect_ok(cuModuleLoadData(&module, &wrapper));
	node_kernel(module, "store");
	fat_binary(fat, packed, 0x2011, literals(packed, node_ptx, bytes), bytes);
	expect_ok(cuModuleLoadData(&module, &wrapper));
	node_kernel(module, "store");
	fat_binary(fat, packed, 0x2011, literals(packed, node_ptx, bytes), bytes + 1);
	expect_cuda(cuModuleLoadData(&module, &wrapper), CUDA_ERROR_INVALID_IMAGE);
	fat_binary(fat, node_ptx, 0x11, bytes, 0);
	fat[16 + 128] = 2; /* no PTX at all */
	expect_cuda(cuModuleLoadData(&module, &wrapper), CUDA_ERROR_NO_BINARY_FOR_GPU);
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(a_library_serves_every_context)
{
	CUcontext first = node_context(), second;
	CUfunction one, other;
	CUdeviceptr address;
	CUlibrary library, whose;
	CUkernel kernel;
	unsigned count, value;
	int threads;

	expect_ok(cuLibraryLoadData(&library, node_ptx, NULL, NULL, 0, NULL, NULL, 0));
	expect_ok(cuLibraryGetKernelCount(&count, library));
	expect_eq(count, 4);
	expect_ok(cuLibraryGetKernel(&kernel, library, "bump"));
	expect_cuda(cuLibraryGetKernel(&kernel, library, "none"), CUDA_ERROR_NOT_FOUND);
	expect_ok(cuKernelGetLibrary(&whose, kernel));
	expect(whose == library);
	expect_ok(cuKernelGetFunction(&one, kernel));
	expect_ok(
		cuKernelGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, 0));
	expect_eq(threads, 1024);
	/* A CUkernel goes where a CUfunction does. */
	expect_ok(cuLaunchKernel((CUfunction)kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	expect_ok(cuLibraryGetGlobal(&address, NULL, library, "counter"));
	expect_ok(cuMemcpyDtoH_v2(&value, address, 4));
	expect_eq(value, 6);
	second = node_context();
	expect_ok(cuKernelGetFunction(&other, kernel));
	expect(one != other);
	expect_ok(cuLibraryGetGlobal(&address, NULL, library, "counter"));
	expect_ok(cuMemcpyDtoH_v2(&value, address, 4));
	expect_eq(value, 5);
	expect_ok(cuCtxDestroy_v2(second));
	expect_ok(cuLibraryUnload(library));
	expect_cuda(cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
	expect_cuda(cuLaunchKernel(one, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
		    CUDA_ERROR_INVALID_HANDLE);
	expect_ok(cuCtxDestroy_v2(first));
}

/* cuKernelGetAttribute does not: the guest passes it on unmeasured (docs/UNVERIFIED.md). */
TEST(the_first_use_of_a_library_loads_it)
{
	static const char large[] = ".version 6.5\n.target sm_70\n.address_size 64\n"
				    ".visible .global .align 8 .b8 room[8388608];\n"
				    ".visible .entry k()\n{\nret;\n}\n";
	CUcontext context = node_context();
	size_t before = node_free_bytes();
	CUlibrary library;
	CUfunction function;
	CUkernel kernel;
	int threads = 0, fresh = 0, loaded = 0;

	expect_ok(cuLibraryLoadData(&library, large, NULL, NULL, 0, NULL, NULL, 0));
	expect_ok(cuLibraryGetKernel(&kernel, library, "k"));
	expect_ok(
		cuKernelGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, 0));
	expect_ok(cuKernelGetAttribute(&fresh, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 0));
	expect_eq(threads, 1024);
	expect_eq(node_free_bytes(), before);
	expect_ok(cuKernelGetFunction(&function, kernel));
	expect_eq(before - node_free_bytes(), 8 * MiB);
	expect_ok(cuKernelGetAttribute(&loaded, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 0));
	expect_eq(fresh, loaded);
	expect_ok(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 50,
				       kernel, 0));
	expect_ok(cuKernelGetAttribute(&loaded, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
				       kernel, 0));
	expect_eq(loaded, 50);
	expect_ok(cuLibraryUnload(library));
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(texts_are_linked)
{
	CUcontext context = node_context();
	char caller[] = ".version 6.5\n.target sm_70\n.address_size 64\n"
			".extern .func (.param .u32 r) seven();\n"
			".visible .entry k(.param .u64 p)\n{\n"
			"\t.reg .b32 %r<2>;\n\t.reg .b64 %rd<2>;\n\t.param .u32 v;\n"
			"\tld.param.u64 %rd1, [p];\n\tcall.uni (v), seven, ();\n"
			"\tld.param.u32 %r1, [v];\n\tst.global.u32 [%rd1], %r1;\n\tret;\n}\n";
	char callee[] = ".version 6.5\n.target sm_70\n.address_size 64\n"
			".visible .func (.param .u32 r) seven()\n{\n"
			"\t.reg .b32 %r<2>;\n\tmov.u32 %r1, 7;\n"
			"\tst.param.u32 [r], %r1;\n\tret;\n}\n";
	CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
	char log[400] = "";
	void *values[] = {log, (void *)sizeof(log)};
	CUdeviceptr address;
	CUlinkState link;
	CUmodule module;
	void *output, *parameters[] = {&address};
	unsigned value;
	size_t bytes;

	expect_ok(cuLinkCreate_v2(2, options, values, &link));
	expect_ok(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, caller, sizeof(caller), "caller", 0,
				   NULL, NULL));
	expect_cuda(cuLinkComplete(link, &output, &bytes), CUDA_ERROR_INVALID_PTX);
	expect(strstr(log, "seven") != NULL);
	expect_ok(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, callee, sizeof(callee), "callee", 0,
				   NULL, NULL));
	expect_ok(cuLinkComplete(link, &output, &bytes));
	expect_ok(cuModuleLoadData(&module, output));
	expect_ok(cuLinkDestroy(link));
	expect_cuda(cuLinkDestroy(link), CUDA_ERROR_INVALID_HANDLE);
	expect_ok(cuMemAlloc_v2(&address, 4));
	expect_ok(cuLaunchKernel(node_kernel(module, "k"), 1, 1, 1, 1, 1, 1, 0, NULL, parameters,
				 NULL));
	expect_ok(cuMemcpyDtoH_v2(&value, address, 4));
	expect_eq(value, 7);
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(names_are_of_functions_that_are_given)
{
	CUcontext context = node_context();
	CUfunction add = node_kernel(node_module(), "add");
	const char *name = NULL;

	expect_ok(cuFuncGetName(&name, add));
	expect_str(name, "add");
	expect_cuda(cuFuncGetName(&name, NULL), CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuFuncGetName(NULL, add), CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuFuncGetName(&name, (CUfunction)context), CUDA_ERROR_INVALID_HANDLE);
	expect_cuda(cuKernelGetName(&name, NULL), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(occupancy_follows_threads_and_shared_memory)
{
	CUcontext context = node_context();
	CUfunction add = node_kernel(node_module(), "add");
	int blocks, grid, block, value;
	size_t bytes;

	expect_ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 1024, 0));
	expect_eq(blocks, 2);
	expect_ok(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 32, 40000));
	expect_eq(blocks, 2);
	expect_cuda(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 0, 0),
		    CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuOccupancyMaxPotentialBlockSize(&grid, &block, add, NULL, 0, 256));
	expect_eq(block, 256);
	expect_eq(grid, 4 * 8);
	/* One block alone could have more of the multiprocessor, but not without opting in. */
	expect_ok(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, add, 1, 128));
	expect_eq(bytes, 48 * 1024);
	expect_ok(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, add, 2, 128));
	expect_eq(bytes, 48 * 1024);
	expect_cuda(
		cuFuncSetAttribute(add, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20),
		CUDA_ERROR_INVALID_VALUE);
	expect_ok(
		cuFuncSetAttribute(add, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 64 << 10));
	expect_ok(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, add));
	expect_eq(value, 64 << 10);
	expect_ok(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, add, 1, 128));
	expect_eq(bytes, 64 << 10);
	expect_ok(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, add, 16, 32));
	expect_eq(bytes, 6 << 10);
	expect_ok(cuCtxDestroy_v2(context));
}

/* A kernel that has forty numbers at hand at the same time. */
static char *greedy(void)
{
	static char text[8192];
	char *at = text;

	at += sprintf(at, ".version 6.5\n.target sm_70\n.address_size 64\n"
			  ".visible .entry greedy(.param .u64 p)\n{\n"
			  ".reg .b64 %%a, %%sum, %%v<40>;\nld.param.u64 %%a, [p];\n");
	for (int i = 0; i < 40; i++)
		at += sprintf(at, "ld.global.u64 %%v%d, [%%a+%d];\n", i, i * 8);
	at += sprintf(at, "mov.u64 %%sum, 0;\n");
	for (int i = 0; i < 40; i++)
		at += sprintf(at, "add.u64 %%sum, %%sum, %%v%d;\n", i);
	sprintf(at, "st.global.u64 [%%a], %%sum;\nret;\n}\n");
	return text;
}

static int registers_of(CUmodule module)
{
	int registers;

	expect_ok(cuFuncGetAttribute(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS,
				     node_kernel(module, "greedy")));
	return registers;
}

TEST(the_most_registers_are_as_asked_for)
{
	CUcontext context = node_context();
	CUjit_option option = CU_JIT_MAX_REGISTERS;
	void *value = (void *)24, *output;
	CUlinkState link;
	CUmodule module;

	expect_ok(cuModuleLoadData(&module, greedy()));
	expect(registers_of(module) > 32);
	expect_ok(cuModuleLoadDataEx(&module, greedy(), 1, &option, &value));
	expect_eq(registers_of(module), 24);
	value = (void *)32;
	expect_ok(cuLinkCreate_v2(1, &option, &value, &link));
	expect_ok(cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, greedy(), strlen(greedy()) + 1, "greedy",
				   0, NULL, NULL));
	expect_ok(cuLinkComplete(link, &output, NULL));
	expect_ok(cuModuleLoadData(&module, output));
	expect_ok(cuLinkDestroy(link));
	expect_eq(registers_of(module), 32);
	expect_ok(cuCtxDestroy_v2(context));
}
