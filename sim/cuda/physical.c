/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/physical.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "cuda/prototypes.h"
#include "sim/machine/clock.h"
#include "sim/cuda/context.h"
#include "sim/machine/device.h"
#include "sim/cuda/driver.h"
#include "sim/machine/faults.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/physical_share.h"
#include "sim/machine/segment.h"
#include "sim/cuda/space.h"

#define PATTERN_WHOLE (16ull << 20) /* larger allocations get the pattern at both ends only */
#define PATTERN_END   (1ull << 20)
#define STORE_BYTES   (1ull << 42)

static struct {
	pthread_mutex_t lock;
	int store; /* the process's sparse file, or -1 */
} physical = {.lock = PTHREAD_MUTEX_INITIALIZER, .store = -1};

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

void physical_home_leave(struct physical *allocation)
{
	fallocate(physical.store, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		  (off_t)space_offset(allocation->home), (off_t)allocation->bytes);
	space_release(allocation->home, allocation->bytes);
	allocation->home = 0;
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

/* ---- its end -------------------------------------------------------------------------------- */

void physical_free(struct physical *allocation)
{
	if (allocation->share) {
		physical_share_end(allocation);
		return;
	}
	if (allocation->fd >= 0) {
		close(allocation->fd);
	} else if (allocation->home) {
		physical_home_leave(allocation);
	}
	device_give(allocation->device, allocation->bytes);
	free(allocation);
}

/* Drops handles or mappings; frees the memory with the last of them. */
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
		physical_free(allocation);
}

void physical_hold(struct physical *allocation)
{
	pthread_mutex_lock(&physical.lock);
	allocation->mappings++;
	pthread_mutex_unlock(&physical.lock);
}

CUresult physical_new(const CUmemAllocationProp *properties, int device, uint64_t bytes,
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
	physical_share_tidy();
	r = physical_new(properties, properties->location.id, bytes, &allocation);
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
		physical_free(allocation);
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
