/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/movable/movable_fit.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <sys/syscall.h>

#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/process/state.h"
#include "wire/page.h"

enum {
	PART = 4096,
	NAME_MOST = 32, /* of a library, without its folder */
};

/* ---- what is loaded -------------------------------------------------------------------------- */

/* `node`: it can do so only where this can be opened. */
static const struct {
	const char *name, *node;
} reaching[] = {
	{"/libnvcuvid.so", NULL},
	{"/libnvidia-encode.so", NULL},
	{"/libnvoptix.so", NULL},
	{"/libibverbs.so", "/dev/infiniband/uverbs0"},
};

static bool is_there(const char *node)
{
	return !node || syscall(SYS_faccessat, AT_FDCWD, node, R_OK | W_OK) == 0;
}

static bool names_one(const char *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(reaching); i++)
		if (strstr(text, reaching[i].name) && is_there(reaching[i].node))
			return true;
	return false;
}

/* Reads the kernel's list, not the loader's: a thread that waits for us may hold the loader's lock.
 */
static bool has_one_loaded(void)
{
	char text[NAME_MOST + PART + 1];
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	size_t kept = 0;
	bool found = false;
	long n;

	while (fd >= 0 && !found && (n = syscall(SYS_read, fd, text + kept, PART)) > 0) {
		text[kept + (size_t)n] = '\0';
		found = names_one(text);
		/* A name may continue in the next part. */
		n += (long)kept;
		kept = n < NAME_MOST ? (size_t)n : NAME_MOST;
		memmove(text, text + n - kept, kept);
	}
	if (fd >= 0)
		close(fd);
	return found;
}

/* ---- what is open ---------------------------------------------------------------------------- */

struct entry { /* of getdents64() */
	uint64_t inode;
	int64_t next;
	uint16_t bytes;
	uint8_t type;
	char name[];
};

static bool leads_there(int folder, const char *name)
{
	char target[256];
	long n = syscall(SYS_readlinkat, folder, name, target, sizeof(target) - 1);

	if (n <= 0)
		return false;
	target[n] = '\0';
	return strstr(target, "/dev/infiniband/") != NULL;
}

/* Network adapters reach memory at physical addresses, once it was registered with them (GPUDirect
 * RDMA). Registrations pass us by; but a program that registers has one of /dev/infiniband open. */
static bool has_adapter_open(void)
{
	long folder = syscall(SYS_openat, AT_FDCWD, "/proc/self/fd",
			      O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	bool found = false;
	char block[2048] __attribute__((aligned(8)));
	long n;

	if (folder < 0)
		return false;
	while (!found && (n = syscall(SYS_getdents64, folder, block, sizeof(block))) > 0)
		for (long at = 0; at < n && !found;) {
			const struct entry *entry = (const struct entry *)&block[at];

			found = leads_there((int)folder, entry->name);
			at += entry->bytes;
		}
	syscall(SYS_close, folder);
	return found;
}

uint32_t movable_unfit_now(void)
{
	int saved = errno;
	bool found = has_one_loaded() || has_adapter_open();

	errno = saved;
	return found ? WIRE_UNMOVABLE_PROCESS : 0;
}

/* ---- the device ------------------------------------------------------------------------------ */

static bool device_has(CUdevice ordinal, CUdevice_attribute attribute)
{
	int value = 0;

	return driver_call(real(cuDeviceGetAttribute)(&value, attribute, ordinal)) ==
		       CUDA_SUCCESS &&
	       value;
}

uint32_t movable_unfit(CUdevice ordinal)
{
	if (atomic_load(&state.devices) != 1)
		return WIRE_UNMOVABLE_DEVICES;
	if (ordinal < 0 || !real_has(cuMemAddressReserve) || !real_has(cuMemSetAccess) ||
	    !device_has(ordinal, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED))
		return WIRE_UNMOVABLE_DRIVER;
	return movable_unfit_now();
}

CUmemAllocationProp movable_properties(CUdevice ordinal)
{
	CUmemAllocationProp about = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .location = {CU_MEM_LOCATION_TYPE_DEVICE, ordinal}};

	if (real_has(cuMemExportToShareableHandle) && real_has(cuMemRetainAllocationHandle) &&
	    device_has(ordinal, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
		about.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	if (device_has(ordinal, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))
		about.allocFlags.gpuDirectRDMACapable = 1;
	return about;
}
