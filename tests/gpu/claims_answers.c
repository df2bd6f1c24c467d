/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of single calls. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/lab.h"

CLAIM(tensor_maps_do_not_touch_memory)
{
	struct lab lab = lab_begin();
	CUdeviceptr at = lab_reserve(2 * MiB);
	cuuint64_t sizes[] = {256, 64}, strides[] = {1024};
	cuuint32_t box[] = {32, 8}, steps[] = {1, 1};
	CUtensorMap map;

	(void)lab;
	answers(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_UINT32, 2,
				       (void *)(uintptr_t)at, sizes, strides, box, steps,
				       CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
				       CU_TENSOR_MAP_L2_PROMOTION_NONE,
				       CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
		CUDA_SUCCESS);
	must(cuCtxSynchronize());
}

struct held {
	CUdeviceptr device;
	void *host, *registered;
	CUmodule module;
};

static void *free_all(void *argument)
{
	struct held *held = argument;
	CUcontext current = NULL;

	must(cuCtxGetCurrent(&current));
	if (current)
		claim_failed("a new thread has a context");
	answers(cuMemFree_v2(held->device), CUDA_SUCCESS);
	answers(cuMemFreeHost(held->host), CUDA_SUCCESS);
	answers(cuMemHostUnregister(held->registered), CUDA_SUCCESS);
	answers(cuModuleUnload(held->module), CUDA_SUCCESS);
	return NULL;
}

CLAIM(frees_need_no_context)
{
	struct lab lab = lab_begin();
	struct held held = {.module = lab.module};

	held.registered =
		mmap(NULL, MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (held.registered == MAP_FAILED)
		claim_failed("no memory");
	must(cuMemAlloc_v2(&held.device, 3 * MiB));
	must(cuMemHostAlloc(&held.host, MiB, 0));
	must(cuMemHostRegister_v2(held.registered, MiB, 0));
	lab_in_thread(free_all, &held);
}

CLAIM(a_reset_context_is_inactive)
{
	struct lab lab = lab_begin();
	CUcontext context;
	unsigned flags;
	int active = 1;

	must(cuDevicePrimaryCtxRetain(&context, lab.device));
	must(cuDevicePrimaryCtxRetain(&context, lab.device));
	must(cuDevicePrimaryCtxReset_v2(lab.device));
	must(cuDevicePrimaryCtxGetState(lab.device, &flags, &active));
	holds(!active, "it is active after a reset, having been retained twice");
}

static CUresult launch_of(CUfunction kernel, unsigned threads, unsigned shared)
{
	return cuLaunchKernel(kernel, 1, 1, 1, threads, 1, 1, shared, NULL, NULL, NULL);
}

CLAIM(impossible_launches_are_invalid_values)
{
	struct lab lab = lab_begin();
	CUfunction large = lab_kernel(&lab, "large"), nothing = lab_kernel(&lab, "nothing");
	int most;

	must(launch_of(large, 32, 0));
	answers(launch_of(large, 33, 0), CUDA_ERROR_INVALID_VALUE);
	answers(launch_of(nothing, 1025, 0), CUDA_ERROR_INVALID_VALUE);
	must(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK,
				  lab.device));
	must(launch_of(nothing, 1, (unsigned)most));
	answers(launch_of(nothing, 1, (unsigned)most + 1), CUDA_ERROR_INVALID_VALUE);
	must(cuCtxSynchronize());
}

/* Uploads in one context, and adds in another, without waiting, 200 times. */
CLAIM(a_pageable_copy_is_there_for_another_context)
{
	struct lab lab = lab_begin(), other = lab_begin();
	CUfunction add = lab_kernel(&other, "add");
	CUdeviceptr at;
	static unsigned values[16 << 10];
	unsigned k = 1;
	void *arguments[] = {&at, &k};

	must(cuCtxSetCurrent(lab.context));
	must(cuMemAlloc_v2(&at, sizeof(values)));
	must(cuCtxSynchronize());
	for (unsigned i = 0; i < 200; i++) {
		CUdeviceptr last = at + sizeof(values) - 4;

		values[ARRAY_SIZE(values) - 1] = i * 10;
		arguments[0] = &last;
		must(cuCtxSetCurrent(lab.context));
		must(cuMemcpyHtoD_v2(at, values, sizeof(values)));
		must(cuCtxSetCurrent(other.context));
		must(lab_launch(add, NULL, arguments));
		must(cuCtxSynchronize());
		holds(lab_word(last) == i * 10 + 1, "round %u: %u", i, lab_word(last));
	}
}

static const char unresolved[] = ".version 6.3\n.target sm_70\n.address_size 64\n"
				 ".extern .func missing();\n"
				 ".visible .entry k()\n{\ncall.uni missing, ();\nret;\n}\n";
static const char nonsense[] =
	".version 6.3\n.target sm_70\n.address_size 64\n.visible .entry k()\n{\nadd;\n}\n";
static const char newer[] =
	".version 8.0\n.target sm_%d\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n";

CLAIM(unresolved_symbols_and_bad_syntax_are_invalid_ptx)
{
	struct lab lab = lab_begin();
	CUmodule module;

	(void)lab;
	answers(cuModuleLoadData(&module, unresolved), CUDA_ERROR_INVALID_PTX);
	answers(cuModuleLoadData(&module, nonsense), CUDA_ERROR_INVALID_PTX);
}

CLAIM(ptx_for_a_newer_device_is_invalid_ptx)
{
	static const int known[] = {72, 75, 80, 86, 87, 89, 90, 100, 101, 120};
	struct lab lab = lab_begin();
	int major, minor;
	CUmodule module;
	char text[256];

	must(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
				  lab.device));
	must(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
				  lab.device));
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		if (known[i] <= major * 10 + minor)
			continue;
		snprintf(text, sizeof(text),
			 known[i] < 100 ? newer
					: ".version 8.7\n.target sm_%d\n"
					  ".address_size 64\n.visible .entry k()\n{\nret;\n}\n",
			 known[i]);
		answers(cuModuleLoadData(&module, text), CUDA_ERROR_INVALID_PTX);
		claim_say("sm_%d on a device of %d.%d", known[i], major, minor);
		return;
	}
	claim_needs("an older GPU: PTX knows none that is newer than %d.%d", major, minor);
}

enum { REFUSED = 98 }; /* cuInit says CUDA_ERROR_INVALID_DEVICE */

/* Another process sees as many devices as the list lets it, or REFUSED. */
static int devices_of(const char *list)
{
	char *arguments[] = {"claims", "count_devices", NULL};
	int status;
	pid_t child = lab_fork();

	if (child == 0) {
		setenv("CUDA_VISIBLE_DEVICES", list, 1);
		execv("/proc/self/exe", arguments);
		_exit(99);
	}
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) >= 99)
		claim_failed("no second process");
	return WEXITSTATUS(status);
}

/* For devices_of(): the exit status is the number. */
CLAIM_PART(count_devices)
{
	CUresult r = cuInit(0);
	int n = 0;

	if (r == CUDA_ERROR_INVALID_DEVICE)
		_exit(REFUSED);
	if (r != CUDA_ERROR_NO_DEVICE) {
		must(r);
		must(cuDeviceGetCount(&n));
	}
	_exit(n);
}

static void uuid_of(int index, char text[64])
{
	CUuuid uuid;
	CUdevice device;
	const unsigned char *b = (const unsigned char *)&uuid;

	must(cuDeviceGet(&device, index));
	must(cuDeviceGetUuid_v2(&uuid, device));
	snprintf(text, 64,
		 "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
		 b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
		 b[14], b[15]);
}

CLAIM(visible_devices_end_at_an_unknown_one_and_twice_is_invalid)
{
	char uuid[64], list[256];

	unsetenv("CUDA_VISIBLE_DEVICES");
	must(cuInit(0));
	uuid_of(0, uuid);
	holds(devices_of(uuid) == 1, "%s: %d devices", uuid, devices_of(uuid));
	snprintf(list, sizeof(list), "%s,GPU-00000000-1111-2222-3333-444444444444", uuid);
	holds(devices_of(list) == 1, "an unknown one after the first: %d devices",
	      devices_of(list));
	snprintf(list, sizeof(list), "GPU-00000000-1111-2222-3333-444444444444,%s", uuid);
	holds(devices_of(list) == 0, "an unknown one before the first: %d devices",
	      devices_of(list));
	snprintf(list, sizeof(list), "%s,%s", uuid, uuid);
	holds(devices_of(list) == REFUSED, "named twice: %d devices", devices_of(list));
}

/* For the claim below: whether device 0 is the one that EXPECTED names. */
CLAIM_PART(first_device_is_expected)
{
	const char *expected = getenv("EXPECTED") ? strchr(getenv("EXPECTED"), '-') : NULL;
	char uuid[64];

	must(cuInit(0));
	uuid_of(0, uuid); /* a part's begins with MIG */
	_exit(expected && !strcmp(expected, strchr(uuid, '-')) ? 0 : 1);
}

CLAIM(visible_devices_are_ordered_as_listed)
{
	char *arguments[] = {"claims", "first_device_is_expected", NULL};
	char first[64], second[64], list[160];
	int n, status;
	pid_t child;

	unsetenv("CUDA_VISIBLE_DEVICES");
	must(cuInit(0));
	must(cuDeviceGetCount(&n));
	if (n < 2)
		claim_needs("a second GPU");
	uuid_of(0, first);
	uuid_of(1, second);
	snprintf(list, sizeof(list), "%s,%s", second, first);
	child = lab_fork();
	if (child == 0) {
		setenv("CUDA_VISIBLE_DEVICES", list, 1);
		setenv("EXPECTED", second, 1);
		execv("/proc/self/exe", arguments);
		_exit(99);
	}
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		claim_failed("no second process");
	holds(WEXITSTATUS(status) == 0, "the second one listed first is not device 0");
}
