/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/physical.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "cuda/prototypes.h"
#include "sim/machine/clock.h"
#include "sim/cuda/context.h"
#include "sim/machine/device.h"
#include "sim/cuda/driver.h"
#include "sim/machine/faults.h"
#include "sim/cuda/handle.h"
#include "sim/machine/segment.h"
#include "sim/machine/share.h"
#include "sim/cuda/space.h"

#define PATTERN_WHOLE (16ull << 20) /* larger allocations get the pattern at both ends only */
#define PATTERN_END   (1ull << 20)
#define STORE_BYTES   (1ull << 42)

static const char trailer_magic[16] = "mete-sim-memory";

/* Behind the memory in a file that is shared: what another process must know. */
struct trailer {
	char magic[16];
	uint8_t uuid[16];
	uint64_t bytes;
	uint64_t share; /* 0 before the first export */
};

static struct {
	pthread_mutex_t lock;
	int store;
	struct list shared;
} physical = {.lock = PTHREAD_MUTEX_INITIALIZER,
	      .store = -1,
	      .shared = {.next = &physical.shared, .prev = &physical.shared}};

/* ---- memory ------------------------------------------------------------------------- */

static CUresult properties_check(const CUmemAllocationProp *properties)
{
	if (!properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
		return CUDA_ERROR_INVALID_VALUE;
	switch (properties->location.type) {
	case CU_MEM_LOCATION_TYPE_DEVICE:
		break;
	case CU_MEM_LOCATION_TYPE_HOST:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA:
	case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
		return driver_missing("cuMemCreate of host memory");
	case CU_MEM_LOCATION_TYPE_INVALID:
	case CU_MEM_LOCATION_TYPE_MAX:
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (properties->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return driver_missing("a shareable handle other than a file descriptor");
	return driver_device(properties->location.id);
}

CUresult cuMemGetAllocationGranularity(size_t *bytes, const CUmemAllocationProp *properties,
				       CUmemAllocationGranularity_flags option)
{
	CUresult r = driver_ready();

	if (r == CUDA_SUCCESS)
		r = properties_check(properties);
	if (r != CUDA_SUCCESS)
		return r;
	if (!bytes || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
		       option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = SPACE_BLOCK;
	return CUDA_SUCCESS;
}

/* The process's sparse file. */
static int store_open(void)
{
	pthread_mutex_lock(&physical.lock);
	if (physical.store < 0) {
		physical.store = memfd_create("mete-sim-store", MFD_CLOEXEC);
		if (physical.store >= 0 && ftruncate(physical.store, (off_t)STORE_BYTES) < 0) {
			close(physical.store);
			physical.store = -1;
		}
	}
	pthread_mutex_unlock(&physical.lock);
	return physical.store;
}

int physical_fd(const struct physical *allocation)
{
	return allocation->fd >= 0 ? allocation->fd : physical.store;
}

/* Where in its file. The window is far smaller than the store. */
uint64_t physical_offset(const struct physical *allocation)
{
	return allocation->fd >= 0 ? 0 : space_offset(allocation->home);
}

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

/* Gives its place in the store back. */
static void home_leave(struct physical *allocation)
{
	fallocate(physical.store, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		  (off_t)space_offset(allocation->home), (off_t)allocation->bytes);
	space_release(allocation->home, allocation->bytes);
	allocation->home = 0;
}

/* Only what was written is copied: a hole in one file is a hole in the other. */
static bool file_fill(const struct physical *allocation, int fd)
{
	uint64_t home = space_offset(allocation->home), end = home + allocation->bytes;
	off_t from = (off_t)home, to;
	ssize_t wrote;
	void *at;

	while ((uint64_t)from < end) {
		from = lseek(physical.store, from, SEEK_DATA);
		if (from < 0 || (uint64_t)from >= end)
			return from >= 0 || errno == ENXIO;
		to = lseek(physical.store, from, SEEK_HOLE);
		if (to < 0 || (uint64_t)to > end)
			to = (off_t)end;
		at = mmap(NULL, (size_t)(to - from), PROT_READ, MAP_SHARED, physical.store, from);
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

/* Before it is handed over: moves it from the store into a file of its own, under the addresses at
 * which it is mapped. */
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
		home_leave(allocation);
	}
	space_go_on();
	physical_maps_go_on();
	return about.failed ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static void allocation_fill(const struct physical *allocation, uint64_t from, uint64_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, physical_fd(allocation),
			(off_t)(physical_offset(allocation) + from));

	if (at == MAP_FAILED)
		return;
	space_pattern(at, bytes);
	munmap(at, bytes);
}

static void allocation_pattern(const struct physical *allocation)
{
	if (!space_has_pattern())
		return;
	if (allocation->bytes <= PATTERN_WHOLE) {
		allocation_fill(allocation, 0, allocation->bytes);
		return;
	}
	allocation_fill(allocation, 0, PATTERN_END);
	allocation_fill(allocation, allocation->bytes - PATTERN_END, PATTERN_END);
}

static CUresult allocation_back(struct physical *allocation)
{
	if (store_open() < 0 ||
	    space_reserve(allocation->bytes, SPACE_BLOCK, 0, &allocation->home) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	allocation_pattern(allocation);
	return CUDA_SUCCESS;
}

/* ---- sharing, with the lock held ------------------------------------------------------------ */

static bool trailer_share(const struct physical *allocation)
{
	return pwrite(allocation->fd, &allocation->share, sizeof(allocation->share),
		      (off_t)(allocation->bytes + offsetof(struct trailer, share))) ==
	       (ssize_t)sizeof(allocation->share);
}

static struct physical *shared_other(const struct physical *allocation)
{
	list_for_each(link, &physical.shared)
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

/* Neither handle nor mapping is left; others in this process may be of the same memory, or
 * descriptors open. */
static void shared_end(struct physical *allocation)
{
	if (shared_other(allocation)) {
		shared_forget(allocation);
	} else if (share_marked(allocation->fd)) {
		allocation->watched = true;
		share_watch(allocation->device, allocation->share, allocation->fd);
	} else {
		share_leave(allocation->device, allocation->share);
		shared_forget(allocation);
	}
}

/* Of what was kept for descriptors: is it still for any? The process's own ends are seen here,
 * where nobody may look from outside. */
static void shared_tidy(void)
{
	struct list *link = physical.shared.next;

	while (link != &physical.shared) {
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

static void tidy(void)
{
	pthread_mutex_lock(&physical.lock);
	shared_tidy();
	pthread_mutex_unlock(&physical.lock);
}

/* An open file of its own, so that its lock tells of it alone. */
static int file_again(int fd)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, O_RDWR | O_CLOEXEC);
}

/* ---- its end -------------------------------------------------------------------------------- */

static void allocation_free(struct physical *allocation)
{
	if (allocation->share) {
		pthread_mutex_lock(&physical.lock);
		shared_end(allocation);
		pthread_mutex_unlock(&physical.lock);
		return;
	}
	if (allocation->fd >= 0) {
		close(allocation->fd);
	} else if (allocation->home) {
		home_leave(allocation);
	}
	device_give(allocation->device, allocation->bytes);
	free(allocation);
}

/* Drops a handle or a mapping; frees what nobody needs any more. */
void physical_drop(struct physical *allocation, unsigned handles, unsigned mappings)
{
	bool gone;

	pthread_mutex_lock(&physical.lock);
	allocation->handles -= handles;
	allocation->mappings -= mappings;
	if (handles && !allocation->handles)
		handle_remove(HANDLE_ALLOCATION, allocation);
	gone = !allocation->handles && !allocation->mappings;
	pthread_mutex_unlock(&physical.lock);
	if (gone)
		allocation_free(allocation);
}

void physical_hold(struct physical *allocation)
{
	pthread_mutex_lock(&physical.lock);
	allocation->mappings++;
	pthread_mutex_unlock(&physical.lock);
}

static CUresult allocation_new(const CUmemAllocationProp *properties, int device, uint64_t bytes,
			       struct physical **ret_allocation)
{
	struct physical *allocation = calloc(1, sizeof(*allocation));

	if (!allocation)
		return CUDA_ERROR_OUT_OF_MEMORY;
	allocation->properties = *properties;
	allocation->device = device;
	allocation->bytes = bytes;
	allocation->fd = -1;
	allocation->handles = 1;
	*ret_allocation = allocation;
	return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *ret_handle, size_t bytes,
		     const CUmemAllocationProp *properties, unsigned long long flags)
{
	struct physical *allocation;
	CUresult r = driver_ready();

	if (r == CUDA_SUCCESS)
		r = properties_check(properties);
	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_handle || !bytes || bytes % SPACE_BLOCK || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (faults_at(FAULTS_ALLOCATION, properties->location.id) == FAULTS_OUT_OF_MEMORY)
		return CUDA_ERROR_OUT_OF_MEMORY;
	tidy();
	r = allocation_new(properties, properties->location.id, bytes, &allocation);
	if (r != CUDA_SUCCESS)
		return r;
	if (device_take(allocation->device, bytes) != 0) {
		free(allocation);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	r = allocation_back(allocation);
	if (r == CUDA_SUCCESS && handle_add(HANDLE_ALLOCATION, allocation) < 0)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r != CUDA_SUCCESS) {
		allocation_free(allocation);
		return r;
	}
	clock_spend(segment_settings()->create_ns + device_clear_ns(bytes));
	*ret_handle = (CUmemGenericAllocationHandle)(uintptr_t)allocation;
	return CUDA_SUCCESS;
}

CUresult physical_named(CUmemGenericAllocationHandle handle, struct physical **ret_allocation)
{
	struct physical *allocation = (struct physical *)(uintptr_t)handle;
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!handle_is(HANDLE_ALLOCATION, allocation))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_allocation = allocation;
	return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
	struct physical *allocation;
	CUresult r = physical_named(handle, &allocation);

	if (r == CUDA_SUCCESS)
		physical_drop(allocation, 1, 0);
	return r;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *ret_handle, void *address)
{
	struct space_range range;
	struct physical *allocation;
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_handle || space_find((uint64_t)(uintptr_t)address, &range) < 0 ||
	    range.kind != SPACE_MAPPED)
		return CUDA_ERROR_INVALID_VALUE;
	allocation = range.owner;
	pthread_mutex_lock(&physical.lock);
	if (!allocation->handles && handle_add(HANDLE_ALLOCATION, allocation) < 0)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	else
		allocation->handles++;
	pthread_mutex_unlock(&physical.lock);
	if (r == CUDA_SUCCESS)
		*ret_handle = (CUmemGenericAllocationHandle)(uintptr_t)allocation;
	return r;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
						CUmemGenericAllocationHandle handle)
{
	struct physical *allocation;
	CUresult r = physical_named(handle, &allocation);

	if (r != CUDA_SUCCESS)
		return r;
	if (!properties)
		return CUDA_ERROR_INVALID_VALUE;
	*properties = allocation->properties;
	return CUDA_SUCCESS;
}

/* ---- sharing --------------------------------------------------------------------------------- */

static CUresult share(struct physical *allocation)
{
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&physical.lock);
	if (!allocation->share) {
		if (share_make(allocation->device, allocation->bytes, &allocation->share) != 0)
			r = CUDA_ERROR_OUT_OF_MEMORY;
		else
			list_append(&physical.shared, &allocation->shared);
		if (r == CUDA_SUCCESS && !trailer_share(allocation))
			r = CUDA_ERROR_OPERATING_SYSTEM;
	}
	pthread_mutex_unlock(&physical.lock);
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

/* What the file says about itself. */
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

/* Makes the process a holder of what it imports, for which it does not pay. */
static CUresult join(struct physical *allocation)
{
	uint64_t share_before = allocation->share;
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&physical.lock);
	if (share_join(allocation->device, allocation->bytes, &allocation->share) != 0) {
		r = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		if (share_before != allocation->share && !trailer_share(allocation)) {
			share_leave(allocation->device, allocation->share);
			r = CUDA_ERROR_OPERATING_SYSTEM;
		} else {
			list_append(&physical.shared, &allocation->shared);
		}
		shared_tidy();
	}
	pthread_mutex_unlock(&physical.lock);
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
	r = allocation_new(&properties, device, trailer.bytes, &allocation);
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
		allocation_free(allocation);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*ret_handle = (CUmemGenericAllocationHandle)(uintptr_t)allocation;
	return CUDA_SUCCESS;
}
