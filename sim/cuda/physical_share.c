/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/physical_share.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "cuda/prototypes.h"
#include "sim/machine/device.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/physical.h"
#include "sim/machine/share.h"
#include "sim/cuda/space.h"

static const char trailer_magic[16] = "mete-sim-memory";

/* The trailer behind the memory in a shared file: what another process must know. */
struct trailer {
	char magic[16];
	uint8_t uuid[16];
	uint64_t bytes;
	uint64_t share; /* 0 before the first export */
};

/* All that the process has exported or imported. */
static struct {
	pthread_mutex_t lock;
	struct list all;
} sharing = {.lock = PTHREAD_MUTEX_INITIALIZER,
	     .all = {.next = &sharing.all, .prev = &sharing.all}};

/* Returns a descriptor, or -1. */
static int file_make(const struct physical *allocation)
{
	struct trailer trailer = {.bytes = allocation->bytes};
	owned(close) int fd = memfd_create("mete-sim-memory", MFD_CLOEXEC);

	memcpy(trailer.magic, trailer_magic, sizeof(trailer.magic));
	device_uuid(allocation->device, trailer.uuid);
	if (fd < 0 || ftruncate(fd, (off_t)(allocation->bytes + 4096)) < 0 ||
	    pwrite(fd, &trailer, sizeof(trailer), (off_t)allocation->bytes) !=
		    (ssize_t)sizeof(trailer))
		return -1;
	return take_fd(&fd);
}

/* Only what was written is copied: a hole in one file is a hole in the other. */
static bool file_fill(const struct physical *allocation, int fd)
{
	int store = physical_fd(allocation);
	uint64_t home = physical_offset(allocation), end = home + allocation->bytes;
	off_t from = (off_t)home, to;
	ssize_t wrote;
	void *at;

	while ((uint64_t)from < end) {
		from = lseek(store, from, SEEK_DATA);
		if (from < 0 || (uint64_t)from >= end)
			return from >= 0 || errno == ENXIO;
		to = lseek(store, from, SEEK_HOLE);
		if (to < 0 || (uint64_t)to > end)
			to = (off_t)end;
		at = mmap(NULL, (size_t)(to - from), PROT_READ, MAP_SHARED, store, from);
		if (at == MAP_FAILED)
			return false;
		wrote = pwrite(fd, at, (size_t)(to - from), from - (off_t)home);
		munmap(at, (size_t)(to - from));
		if (wrote != to - from)
			return false;
		from = to;
	}
	return true;
}

struct remap {
	const struct physical *allocation;
	int fd;
	bool failed;
};

static void remap(const struct space_range *range, void *data)
{
	struct remap *about = data;

	if (range->kind == SPACE_MAPPED && range->owner == about->allocation)
		about->failed |= space_back_file(range->base, range->bytes, about->fd, 0) < 0;
}

/* Before the memory is exported: moves it from the store into a file of its own, and replaces it at
 * the addresses at which it is mapped. */
static CUresult file_own(struct physical *allocation)
{
	struct remap about = {.allocation = allocation};
	owned(close) int fd = -1;

	if (allocation->fd >= 0)
		return CUDA_SUCCESS;
	fd = file_make(allocation);
	if (fd < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	about.fd = fd;
	physical_maps_stop();
	space_still();
	about.failed = allocation->fd < 0 && !file_fill(allocation, fd);
	if (allocation->fd < 0 && !about.failed) {
		space_visit(remap, &about);
		allocation->fd = take_fd(&fd);
		physical_home_leave(allocation);
	}
	space_go_on();
	physical_maps_go_on();
	return about.failed ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

/* ---- its holders ---------------------------------------------------------------------------- */

static bool trailer_share(const struct physical *allocation)
{
	return pwrite(allocation->fd, &allocation->share, sizeof(allocation->share),
		      (off_t)(allocation->bytes + offsetof(struct trailer, share))) ==
	       (ssize_t)sizeof(allocation->share);
}

static struct physical *shared_other(const struct physical *allocation)
{
	list_for_each(link, &sharing.all)
	{
		struct physical *other = list_entry(link, struct physical, shared);

		if (other != allocation && other->share == allocation->share)
			return other;
	}
	return NULL;
}

static void shared_forget(struct physical *allocation)
{
	list_remove(&allocation->shared);
	close(allocation->fd);
	free(allocation);
}

void physical_share_end(struct physical *allocation)
{
	pthread_mutex_lock(&sharing.lock);
	if (shared_other(allocation)) {
		shared_forget(allocation);
	} else if (share_marked(allocation->fd)) {
		allocation->watched = true;
		share_watch(allocation->device, allocation->share, allocation->fd);
	} else {
		share_leave(allocation->device, allocation->share);
		shared_forget(allocation);
	}
	pthread_mutex_unlock(&sharing.lock);
}

/* Frees memory that was kept for descriptors and is no longer needed. Descriptors of this process
 * are checked here, as other processes may not see them. */
static void tidy(void)
{
	struct list *link = sharing.all.next;

	while (link != &sharing.all) {
		struct physical *allocation = list_entry(link, struct physical, shared);

		link = link->next;
		if (!allocation->watched)
			continue;
		if (!shared_other(allocation)) {
			if (share_marked(allocation->fd) &&
			    share_held(allocation->device, allocation->share))
				continue;
			share_leave(allocation->device, allocation->share);
		}
		shared_forget(allocation);
	}
}

void physical_share_tidy(void)
{
	pthread_mutex_lock(&sharing.lock);
	tidy();
	pthread_mutex_unlock(&sharing.lock);
}

/* An open file of its own, so that its lock stands for this descriptor alone. */
static int file_again(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

/* ---- what programs call ---------------------------------------------------------------------- */

static CUresult share(struct physical *allocation)
{
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&sharing.lock);
	if (!allocation->share) {
		if (share_make(allocation->device, allocation->bytes, &allocation->share) != 0)
			r = CUDA_ERROR_OUT_OF_MEMORY;
		else
			list_append(&sharing.all, &allocation->shared);
		if (r == CUDA_SUCCESS && !trailer_share(allocation))
			r = CUDA_ERROR_OPERATING_SYSTEM;
	}
	pthread_mutex_unlock(&sharing.lock);
	return r;
}

CUresult cuMemExportToShareableHandle(void *ret_descriptor, CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType type, unsigned long long flags)
{
	struct physical *allocation;
	CUresult r = physical_named(handle, &allocation);
	owned(close) int fd = -1;
	int out;

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_descriptor || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    !allocation->properties.requestedHandleTypes)
		return CUDA_ERROR_INVALID_VALUE;
	r = file_own(allocation);
	if (r == CUDA_SUCCESS)
		r = share(allocation);
	if (r != CUDA_SUCCESS)
		return r;
	fd = file_again(allocation->fd);
	if (fd < 0 || share_mark(fd) < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	out = take_fd(&fd);
	memcpy(ret_descriptor, &out, sizeof(out));
	return CUDA_SUCCESS;
}

/* Reads the file's trailer. */
static CUresult trailer_read(int fd, struct trailer *ret_trailer, int *ret_device)
{
	struct stat about;
	off_t at;

	if (fstat(fd, &about) < 0 || about.st_size < 4096 + (off_t)SPACE_BLOCK)
		return CUDA_ERROR_INVALID_VALUE;
	at = about.st_size - 4096;
	if (pread(fd, ret_trailer, sizeof(*ret_trailer), at) != (ssize_t)sizeof(*ret_trailer) ||
	    memcmp(ret_trailer->magic, trailer_magic, sizeof(trailer_magic)) != 0 ||
	    ret_trailer->bytes != (uint64_t)at)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_device = device_by_uuid(ret_trailer->uuid);
	return *ret_device < 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

/* Makes the process a holder of imported memory, for which it does not pay. */
static CUresult join(struct physical *allocation)
{
	uint64_t share_before = allocation->share;
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&sharing.lock);
	if (share_join(allocation->device, allocation->bytes, &allocation->share) != 0) {
		r = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		if (share_before != allocation->share && !trailer_share(allocation)) {
			share_leave(allocation->device, allocation->share);
			r = CUDA_ERROR_OPERATING_SYSTEM;
		} else {
			list_append(&sharing.all, &allocation->shared);
		}
		tidy();
	}
	pthread_mutex_unlock(&sharing.lock);
	return r;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *ret_handle, void *descriptor,
					CUmemAllocationHandleType type)
{
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	struct physical *allocation;
	struct trailer trailer;
	int device;
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_handle || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_INVALID_VALUE;
	r = trailer_read((int)(intptr_t)descriptor, &trailer, &device);
	if (r != CUDA_SUCCESS)
		return r;
	properties.location.id = device;
	r = physical_new(&properties, device, trailer.bytes, &allocation);
	if (r != CUDA_SUCCESS)
		return r;
	allocation->share = trailer.share;
	allocation->fd = file_again((int)(intptr_t)descriptor);
	r = allocation->fd < 0 ? CUDA_ERROR_OPERATING_SYSTEM : join(allocation);
	if (r != CUDA_SUCCESS) {
		if (allocation->fd >= 0)
			close(allocation->fd);
		free(allocation);
		return r;
	}
	if (handle_add(HANDLE_ALLOCATION, allocation) < 0) {
		physical_free(allocation);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_handle = (CUmemGenericAllocationHandle)(uintptr_t)allocation;
	return CUDA_SUCCESS;
}
