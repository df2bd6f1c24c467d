/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <sys/wait.h>

#include "tests/system/sim/node.h"

TEST(the_default_device_is_as_documented)
{
	char name[64];
	size_t total;
	int value;

	expect_ok(cuInit(0));
	expect_ok(cuDeviceGetName(name, sizeof(name), 0));
	expect_str(name, "Simulated GPU");
	expect_ok(cuDeviceTotalMem_v2(&total, 0));
	expect_eq(total, 4096 * MiB);
	expect_ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
	expect_eq(value, 4);
	expect_ok(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
	expect_eq(value, 7);
	expect_cuda(cuDeviceGetAttribute(&value, (CUdevice_attribute)9999, 0),
		    CUDA_ERROR_INVALID_VALUE);
}

TEST(a_context_costs_memory_while_it_lives)
{
	CUcontext first = node_context();
	size_t before = node_free_bytes();
	CUcontext second = node_context();

	expect(node_free_bytes() < before);
	expect_ok(cuCtxDestroy_v2(second));
	expect_ok(cuCtxSetCurrent(first));
	expect_eq(node_free_bytes(), before);
	expect_ok(cuCtxDestroy_v2(first));
}

TEST(memory_of_a_destroyed_context_comes_back)
{
	CUcontext keeper = node_context();
	size_t before = node_free_bytes();
	CUcontext context = node_context();
	CUdeviceptr address;
	void *host;

	expect_ok(cuMemAlloc_v2(&address, 100 * MiB));
	expect_ok(cuMemAlloc_v2(&address, 100));
	expect_ok(cuMemHostAlloc(&host, 100, 0));
	expect_ok(cuMemAllocManaged(&address, 10 * MiB, CU_MEM_ATTACH_GLOBAL));
	expect_ok(cuCtxDestroy_v2(context));
	expect_ok(cuCtxSetCurrent(keeper));
	expect_eq(node_free_bytes(), before);
	expect_cuda(cuMemFree_v2(address), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuCtxDestroy_v2(keeper));
}

TEST(the_stack_of_contexts_belongs_to_the_thread)
{
	CUcontext first = node_context();
	CUcontext second = node_context();
	CUcontext current;

	expect_ok(cuCtxGetCurrent(&current));
	expect(current == second);
	expect_ok(cuCtxPopCurrent_v2(&current));
	expect(current == second);
	expect_ok(cuCtxGetCurrent(&current));
	expect(current == first);
	expect_ok(cuCtxSetCurrent(second)); /* replaces the first */
	expect_ok(cuCtxPopCurrent_v2(&current));
	expect_cuda(cuCtxPopCurrent_v2(&current), CUDA_ERROR_INVALID_CONTEXT);
	expect_ok(cuCtxGetCurrent(&current));
	expect(current == NULL);
	expect_ok(cuCtxDestroy_v2(first));
	expect_ok(cuCtxDestroy_v2(second));
}

TEST(garbage_is_answered_and_not_followed)
{
	CUcontext context = node_context();
	CUcontext garbage = (CUcontext)(uintptr_t)0xdeadbeef000;

	expect_cuda(cuCtxPushCurrent_v2(garbage), CUDA_ERROR_INVALID_CONTEXT);
	expect_cuda(cuCtxSetCurrent(garbage), CUDA_ERROR_INVALID_CONTEXT);
	expect_cuda(cuCtxDestroy_v2(garbage), CUDA_ERROR_INVALID_CONTEXT);
	expect_cuda(cuModuleUnload((CUmodule)garbage), CUDA_ERROR_INVALID_HANDLE);
	expect_cuda(cuStreamSynchronize((CUstream)garbage), CUDA_ERROR_INVALID_HANDLE);
	expect_cuda(cuLaunchKernel((CUfunction)garbage, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
		    CUDA_ERROR_INVALID_HANDLE);
	expect_cuda(cuMemFree_v2(0x1234), CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuCtxDestroy_v2(context));
	expect_cuda(cuCtxDestroy_v2(context), CUDA_ERROR_INVALID_CONTEXT);
}

TEST(a_destroyed_context_that_is_current_elsewhere_says_so)
{
	CUcontext first = node_context();
	CUcontext second = node_context();

	expect_ok(cuCtxPushCurrent_v2(first));
	expect_ok(cuCtxDestroy_v2(second));
	expect_ok(cuCtxDestroy_v2(first));
	expect_cuda(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	expect_ok(cuCtxSetCurrent(NULL));
	expect_ok(cuCtxSetCurrent(NULL));
}

TEST(the_primary_context_lives_as_long_as_it_is_retained)
{
	CUcontext first, second, current;
	unsigned flags;
	int active;

	expect_ok(cuInit(0));
	expect_cuda(cuDevicePrimaryCtxRelease_v2(0), CUDA_ERROR_INVALID_CONTEXT);
	expect_ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
	expect_eq(active, 0);
	expect_ok(cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SCHED_BLOCKING_SYNC));
	expect_ok(cuDevicePrimaryCtxRetain(&first, 0));
	expect_ok(cuDevicePrimaryCtxRetain(&second, 0));
	expect(first == second);
	expect_ok(cuCtxGetCurrent(&current));
	expect(current == NULL);
	expect_ok(cuCtxSetCurrent(first));
	expect_ok(cuCtxGetFlags(&flags));
	expect_eq(flags, CU_CTX_SCHED_BLOCKING_SYNC);
	expect_ok(cuDevicePrimaryCtxRelease_v2(0));
	expect_ok(cuCtxSynchronize());
	expect_ok(cuDevicePrimaryCtxRelease_v2(0));
	expect_cuda(cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	expect_ok(cuDevicePrimaryCtxRetain(&second, 0));
	expect(first == second);
	expect_ok(cuCtxSynchronize());
	expect_ok(cuDevicePrimaryCtxReset_v2(0));
	expect_ok(cuDevicePrimaryCtxGetState(0, &flags, &active));
	expect_eq(active, 0);
	expect_ok(cuCtxSetCurrent(NULL));
}

TEST(limits_are_the_contexts_own)
{
	CUcontext first = node_context();
	CUcontext second;
	size_t value;

	expect_ok(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
	expect_cuda(cuCtxSetLimit((CUlimit)77, 1), CUDA_ERROR_UNSUPPORTED_LIMIT);
	second = node_context();
	expect_ok(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
	expect_eq(value, 1024);
	expect_ok(cuCtxDestroy_v2(second));
	expect_ok(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
	expect_eq(value, 4096);
	expect_ok(cuCtxDestroy_v2(first));
}

TEST(a_forked_child_of_an_initialised_process_gets_nothing)
{
	CUcontext context = node_context();
	int status;
	pid_t child = fork();

	if (child == 0) {
		CUdevice device;

		if (cuDeviceGet(&device, 0) != CUDA_ERROR_NOT_INITIALIZED)
			_exit(1);
		if (cuInit(0) != CUDA_ERROR_NOT_INITIALIZED)
			_exit(2);
		_exit(0);
	}
	expect_eq(waitpid(child, &status, 0), child);
	expect_eq(status, 0);
	expect_ok(cuCtxSynchronize());
	expect_ok(cuCtxDestroy_v2(context));
}

TEST(names_of_results_are_known)
{
	const char *word;

	expect_ok(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &word));
	expect_str(word, "CUDA_ERROR_ILLEGAL_ADDRESS");
	expect_ok(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &word));
	expect(strstr(word, "memory") != NULL);
	expect_cuda(cuGetErrorName((CUresult)12345, &word), CUDA_ERROR_INVALID_VALUE);
	expect(word == NULL);
}

TEST(a_look_up_in_vain_by_the_older_form_leaves_the_variable_alone)
{
	void *address = &address;

	expect_cuda(cuGetProcAddress("cuNoSuchThing", &address, 12000, 0), CUDA_ERROR_NOT_FOUND);
	expect(address == &address);
	expect_cuda(cuGetProcAddress("cuMemcpyHtoD", &address, 6050, 2), CUDA_ERROR_NOT_FOUND);
	expect(address == &address);
}

TEST(there_are_no_private_tables)
{
	static const CUuuid id = {{0}};
	const void *table = &id;

	expect_cuda(cuGetExportTable(&table, &id), CUDA_ERROR_INVALID_VALUE);
	expect(table == NULL);
	expect_cuda(cuGetExportTable(NULL, &id), CUDA_ERROR_INVALID_VALUE);
}

TEST(functions_are_found_by_name_and_version)
{
	CUdriverProcAddressQueryResult found;
	void *address;

	expect_ok(cuGetProcAddress_v2("cuMemAlloc", &address, 12000, 0, &found));
	expect(address == (void *)cuMemAlloc_v2);
	expect_ok(cuGetProcAddress_v2("cuMemcpyHtoD", &address, 12000, 2, &found));
	expect(address == (void *)cuMemcpyHtoD_v2_ptds);
	expect_ok(cuGetProcAddress_v2("cuNoSuchThing", &address, 12000, 0, &found));
	expect_eq(found, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	expect(address == NULL);
	expect_ok(cuGetProcAddress_v2("cuNoSuchThing", &address, 12000, 0, NULL));
	expect_cuda(cuGetProcAddress("cuNoSuchThing", &address, 12000, 0), CUDA_ERROR_NOT_FOUND);
	expect_ok(cuGetProcAddress_v2("cuGetProcAddress", &address, 12000, 0, &found));
	expect(address == (void *)cuGetProcAddress_v2);
}

TEST(a_missing_function_says_so_and_never_succeeds)
{
	CUcontext context = node_context();
	CUexternalMemory memory;

	expect_cuda(cuImportExternalMemory(&memory, NULL), CUDA_ERROR_NOT_SUPPORTED);
	expect_ok(cuCtxDestroy_v2(context));
}

/* numba ends so: it pops its contexts, then gives back what the collector left. */
TEST(objects_of_a_context_can_be_given_back_without_it)
{
	CUcontext context = node_context(), popped;
	CUdeviceptr device, managed;
	void *host, *own = malloc(4096);
	CUstream stream;
	CUevent event;
	size_t before = node_free_bytes();
	CUmodule module = node_module();

	expect_ok(cuMemAlloc_v2(&device, 3 * MiB));
	expect_ok(cuMemAllocManaged(&managed, 3 * MiB, CU_MEM_ATTACH_GLOBAL));
	expect_ok(cuMemHostAlloc(&host, 3 * MiB, 0));
	expect_ok(cuMemHostRegister_v2(own, 4096, 0));
	expect_ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	expect_ok(cuEventCreate(&event, 0));
	expect_ok(cuCtxPopCurrent_v2(&popped));
	expect_ok(cuMemFree_v2(device));
	expect_ok(cuMemFree_v2(managed));
	expect_ok(cuMemFreeHost(host));
	expect_ok(cuMemHostUnregister(own));
	expect_ok(cuEventDestroy_v2(event));
	expect_ok(cuStreamDestroy_v2(stream));
	expect_ok(cuModuleUnload(module));
	expect_cuda(cuMemFree_v2(device), CUDA_ERROR_INVALID_CONTEXT);
	expect_cuda(cuModuleUnload(module), CUDA_ERROR_INVALID_CONTEXT);
	expect_ok(cuCtxSetCurrent(context));
	expect_eq(node_free_bytes(), before);
	expect_ok(cuCtxDestroy_v2(context));
	free(own);
}

static bool dump_switch(CUresult (*get)(CUcoredumpSettings, void *, size_t *),
			CUcoredumpSettings setting)
{
	bool on = false;
	size_t size = sizeof(on);

	expect_ok(get(setting, &on, &size));
	expect_eq(size, sizeof(on));
	return on;
}

static CUresult want_text(CUresult (*set)(CUcoredumpSettings, void *, size_t *),
			  CUcoredumpSettings setting, const char *text)
{
	char copy[2048];
	size_t size = strlen(text) + 1;

	snprintf(copy, sizeof(copy), "%s", text);
	return set(setting, copy, &size);
}

static void expect_text(CUresult (*get)(CUcoredumpSettings, void *, size_t *),
			CUcoredumpSettings setting, const char *wanted)
{
	char text[1024] = "";
	size_t size = sizeof(text);

	expect_ok(get(setting, text, &size));
	expect_str(text, wanted);
	expect_eq(size, sizeof(text));
}

/* Before the process's first context, whichever test makes it. */
static __attribute__((constructor)) void wish_for_light_dumps(void)
{
	setenv("CUDA_ENABLE_LIGHTWEIGHT_COREDUMP", "1", 1);
}

TEST(wishes_for_core_dumps_are_kept_for_the_process_and_for_a_context)
{
	CUcontext first, second;
	bool on = true, off = false;
	unsigned flags = CU_COREDUMP_LIGHTWEIGHT_FLAGS, seen = 0;
	size_t size = sizeof(on), wide = sizeof(flags);
	char small[4], too_long[1100];

	first = node_context();
	expect(dump_switch(cuCoredumpGetAttributeGlobal, CU_COREDUMP_LIGHTWEIGHT));
	expect(dump_switch(cuCoredumpGetAttributeGlobal, CU_COREDUMP_TRIGGER_HOST));
	expect(!dump_switch(cuCoredumpGetAttribute, CU_COREDUMP_ENABLE_ON_EXCEPTION));
	expect_text(cuCoredumpGetAttributeGlobal, CU_COREDUMP_FILE, "");
	expect_text(cuCoredumpGetAttribute, CU_COREDUMP_FILE, "");

	expect_ok(cuCoredumpSetAttributeGlobal(CU_COREDUMP_TRIGGER_HOST, &off, &size));
	expect_ok(want_text(cuCoredumpSetAttributeGlobal, CU_COREDUMP_FILE, "all"));
	expect_ok(want_text(cuCoredumpSetAttributeGlobal, CU_COREDUMP_PIPE, "pipe"));
	/* A context has a copy, of when it began; the pipe is the process's. */
	expect(dump_switch(cuCoredumpGetAttribute, CU_COREDUMP_TRIGGER_HOST));
	expect_text(cuCoredumpGetAttribute, CU_COREDUMP_FILE, "");
	expect_ok(want_text(cuCoredumpSetAttribute, CU_COREDUMP_FILE, "mine"));
	expect_ok(cuCoredumpSetAttribute(CU_COREDUMP_GENERATION_FLAGS, &flags, &wide));
	expect(!dump_switch(cuCoredumpGetAttributeGlobal, CU_COREDUMP_TRIGGER_HOST));
	expect_text(cuCoredumpGetAttribute, CU_COREDUMP_FILE, "mine");
	expect_text(cuCoredumpGetAttribute, CU_COREDUMP_PIPE, "pipe");
	expect_text(cuCoredumpGetAttributeGlobal, CU_COREDUMP_FILE, "all");
	expect_ok(cuCoredumpGetAttribute(CU_COREDUMP_GENERATION_FLAGS, &seen, &wide));
	expect_eq(seen, flags);
	expect_ok(cuCtxCreate_v2(&second, 0, 0));
	expect_text(cuCoredumpGetAttribute, CU_COREDUMP_FILE, "all");
	expect(!dump_switch(cuCoredumpGetAttribute, CU_COREDUMP_TRIGGER_HOST));
	expect_ok(cuCoredumpSetAttribute(CU_COREDUMP_TRIGGER_HOST, &on, &size));
	expect(dump_switch(cuCoredumpGetAttribute, CU_COREDUMP_TRIGGER_HOST));
	expect(!dump_switch(cuCoredumpGetAttributeGlobal, CU_COREDUMP_TRIGGER_HOST));
	expect_ok(cuCtxDestroy_v2(second));

	memset(too_long, 'x', sizeof(too_long) - 1);
	too_long[sizeof(too_long) - 1] = '\0';
	expect_cuda(want_text(cuCoredumpSetAttribute, CU_COREDUMP_FILE, too_long),
		    CUDA_ERROR_INVALID_VALUE);
	expect_cuda(want_text(cuCoredumpSetAttribute, CU_COREDUMP_PIPE, "p"),
		    CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuCoredumpSetAttribute(CU_COREDUMP_MAX, &on, &size), CUDA_ERROR_INVALID_VALUE);
	expect_cuda(cuCoredumpSetAttribute(0, &on, &size), CUDA_ERROR_INVALID_VALUE);
	size = sizeof(small);
	expect_cuda(cuCoredumpGetAttribute(CU_COREDUMP_FILE, small, &size),
		    CUDA_ERROR_INVALID_VALUE);
	expect_ok(cuCoredumpGetAttribute(CU_COREDUMP_FILE, NULL, &size));
	expect_eq(size, sizeof("mine"));
	expect_ok(cuCtxDestroy_v2(first));
	size = sizeof(on);
	expect_cuda(cuCoredumpGetAttribute(CU_COREDUMP_LIGHTWEIGHT, &on, &size),
		    CUDA_ERROR_INVALID_CONTEXT);
}
