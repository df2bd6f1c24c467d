/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA_VISIBLE_DEVICES: read by the first cuInit(), so that each list gets a process of its own. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/system/sim/node.h"

#define VISIBLE_GPU_MAX 4

/* The devices that a process sees. */
struct view {
	CUresult init;
	int count;
	CUuuid uuid[VISIBLE_GPU_MAX];
	size_t total_bytes[VISIBLE_GPU_MAX]; /* by cuDeviceTotalMem() */
	size_t free_bytes; /* of the first, with a context and an allocation on it */
};

static __attribute__((constructor)) void three_devices(void)
{
	setenv("METE_SIM_DEVICES", "2xV100,1xT4", 1);
}

static struct view look(void)
{
	struct view view = {.init = cuInit(0)};
	CUdeviceptr address;
	CUcontext context;
	size_t total;

	if (view.init != CUDA_SUCCESS || cuDeviceGetCount(&view.count) != CUDA_SUCCESS)
		return view;
	for (int i = 0; i < view.count && i < VISIBLE_GPU_MAX; i++)
		if (cuDeviceGetUuid(&view.uuid[i], i) != CUDA_SUCCESS ||
		    cuDeviceTotalMem_v2(&view.total_bytes[i], i) != CUDA_SUCCESS)
			view.count = -1;
	if (cuCtxCreate_v2(&context, 0, 0) != CUDA_SUCCESS ||
	    cuMemAlloc_v2(&address, 512 * MiB) != CUDA_SUCCESS ||
	    cuMemGetInfo_v2(&view.free_bytes, &total) != CUDA_SUCCESS ||
	    total != view.total_bytes[0])
		view.count = -1;
	return view;
}

/* In a child, where `list` is the variable; NULL: it is not set. */
static struct view seen_with(const char *list)
{
	struct view view = {.count = -2};
	int pipe_fds[2], status;
	pid_t child;

	expect_eq(pipe(pipe_fds), 0);
	child = fork();
	if (child == 0) {
		if (list)
			setenv("CUDA_VISIBLE_DEVICES", list, 1);
		view = look();
		_exit(write(pipe_fds[1], &view, sizeof(view)) != sizeof(view));
	}
	expect_eq(read(pipe_fds[0], &view, sizeof(view)), sizeof(view));
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	expect_eq(waitpid(child, &status, 0), child);
	expect_eq(status, 0);
	return view;
}

static bool same(CUuuid a, CUuuid b)
{
	return memcmp(&a, &b, sizeof(a)) == 0;
}

/* As in "GPU-12345678-1234-...", or its beginning. */
static void spell(char *ret_text, size_t size, CUuuid uuid, int bytes)
{
	int n = snprintf(ret_text, size, "GPU-");

	for (int i = 0; i < bytes; i++)
		n += snprintf(ret_text + n, size - (size_t)n, "%s%02x",
			      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      (unsigned char)uuid.bytes[i]);
}

TEST(a_list_chooses_the_devices_and_their_order)
{
	struct view all = seen_with(NULL), some;

	expect_eq(all.count, 3);
	some = seen_with("2,0");
	expect_eq(some.count, 2);
	expect(same(some.uuid[0], all.uuid[2]) && same(some.uuid[1], all.uuid[0]));
	expect_eq(some.total_bytes[0], all.total_bytes[2]);
	/* The memory is that device's, too. */
	expect(some.free_bytes < all.total_bytes[2]);
	expect(all.total_bytes[2] != all.total_bytes[0]);
}

TEST(a_device_is_named_by_its_uuid_or_the_beginning_of_it)
{
	struct view all = seen_with(NULL), one;
	char name[64];

	for (int bytes = 4; bytes <= 16; bytes += 12) {
		spell(name, sizeof(name), all.uuid[1], bytes);
		one = seen_with(name);
		expect_eq(one.count, 1);
		expect(same(one.uuid[0], all.uuid[1]));
	}
}

TEST(a_text_that_names_no_device_ends_the_list)
{
	expect_eq(seen_with("1,7,0").count, 1);
	expect_eq(seen_with("1,-1,0").count, 1);
	expect_eq(seen_with("0,GPU-,1").count, 1);
	expect_eq(seen_with("").init, CUDA_ERROR_NO_DEVICE);
	expect_eq(seen_with("-1").init, CUDA_ERROR_NO_DEVICE);
	expect_eq(seen_with("99999999999999999999").init, CUDA_ERROR_NO_DEVICE);
}

TEST(a_device_that_is_named_twice_is_invalid)
{
	struct view all = seen_with(NULL);
	char name[64], list[80];

	spell(name, sizeof(name), all.uuid[1], 16);
	snprintf(list, sizeof(list), "1,%s", name);
	expect_eq(seen_with("1,1").init, CUDA_ERROR_INVALID_DEVICE);
	expect_eq(seen_with("0,1,0").init, CUDA_ERROR_INVALID_DEVICE);
	expect_eq(seen_with(list).init, CUDA_ERROR_INVALID_DEVICE);
	/* Text after the list's end is not read. */
	expect_eq(seen_with("1,7,1").count, 1);
}
