/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Virtual memory: reservations of addresses, allocations of physical memory, and mappings between
 * them. Physical memory is a piece of one sparse file of the process, or a file of its own where it
 * can be handed to other processes: thousands of blocks do not take thousands of descriptors.
 */
#include <fcntl.h>
#include <pthread.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "cuda/prototypes.h"
#include "sim/clock.h"
#include "sim/context.h"
#include "sim/device.h"
#include "sim/driver.h"
#include "sim/faults.h"
#include "sim/handle.h"
#include "sim/segment.h"
#include "sim/space.h"

#define VMM_PATTERN_WHOLE (16ull << 20) /* larger allocations get the pattern at both ends only */
#define VMM_PATTERN_END	  (1ull << 20)
#define VMM_STORE_BYTES	  (1ull << 42)

static const char trailer_magic[16] = "mete-sim-memory";

/* Behind the memory in a file that is shared: what another process must know. */
struct trailer {
	char magic[16];
	uint8_t uuid[16];
	uint64_t bytes;
};

struct allocation {
	CUmemAllocationProp properties;
	int device;
	uint64_t bytes;
	unsigned handles, mappings; /* it goes when both are 0; vmm.lock */
	bool imported;		    /* somebody else's book has it */
	int fd;			    /* of its own, or -1: a piece of the store */
	uint64_t home;		    /* addresses that stand for its place in the store */
};

struct reservation {
	uint64_t base, bytes;
	unsigned mappings;
};

static struct {
	pthread_mutex_t lock;
	void *reservations; /* tsearch() tree */
	int store;
} vmm = {.lock = PTHREAD_MUTEX_INITIALIZER, .store = -1};

/* ---- reservations ---------------------------------------------------------------------------- */

static int reservation_compare(const void *left, const void *right)
{
	const struct reservation *a = left, *b = right;

	if (a->base + a->bytes <= b->base)
		return -1;
	if (b->base + b->bytes <= a->base)
		return 1;
	return 0;
}

/* The reservation around all of an area, or NULL. The lock is held. */
static struct reservation *reservation_around(uint64_t base, uint64_t bytes)
{
	struct reservation key = {.base = base, .bytes = 1};
	struct reservation **node;

	if (!bytes || base + bytes < base)
		return NULL;
	node = tfind(&key, &vmm.reservations, reservation_compare);
	if (!node || base + bytes > (*node)->base + (*node)->bytes)
		return NULL;
	return *node;
}

CUresult cuMemAddressReserve(CUdeviceptr *ret_address, size_t bytes, size_t align,
			     CUdeviceptr wanted, unsigned long long flags)
{
	struct reservation *reservation;
	CUresult r = driver_ready();
	int reserved;

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_address || !bytes || bytes % SPACE_BLOCK || flags || (align & (align - 1)))
		return CUDA_ERROR_INVALID_VALUE;
	reservation = calloc(1, sizeof(*reservation));
	if (!reservation)
		return CUDA_ERROR_OUT_OF_MEMORY;
	reserved = space_reserve(bytes, align, wanted, &reservation->base);
	if (reserved < 0) {
		free(reservation);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	reservation->bytes = bytes;
	pthread_mutex_lock(&vmm.lock);
	if (!tsearch(reservation, &vmm.reservations, reservation_compare))
		r = CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_unlock(&vmm.lock);
	if (r != CUDA_SUCCESS) {
		space_release(reservation->base, bytes);
		free(reservation);
		return r;
	}
	*ret_address = reservation->base;
	return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes)
{
	struct reservation *reservation;
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&vmm.lock);
	reservation = reservation_around(address, bytes);
	if (!reservation || reservation->base != address || reservation->bytes != bytes ||
	    reservation->mappings)
		reservation = NULL;
	else
		tdelete(reservation, &vmm.reservations, reservation_compare);
	pthread_mutex_unlock(&vmm.lock);
	if (!reservation)
		return CUDA_ERROR_INVALID_VALUE;
	space_release(address, bytes);
	free(reservation);
	return CUDA_SUCCESS;
}

/* ---- physical memory ------------------------------------------------------------------------- */

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
	pthread_mutex_lock(&vmm.lock);
	if (vmm.store < 0) {
		vmm.store = memfd_create("mete-sim-store", MFD_CLOEXEC);
		if (vmm.store >= 0 && ftruncate(vmm.store, (off_t)VMM_STORE_BYTES) < 0) {
			close(vmm.store);
			vmm.store = -1;
		}
	}
	pthread_mutex_unlock(&vmm.lock);
	return vmm.store;
}

static int allocation_fd(const struct allocation *allocation)
{
	return allocation->fd >= 0 ? allocation->fd : vmm.store;
}

/* Where in its file. The window is far smaller than the store. */
static uint64_t allocation_offset(const struct allocation *allocation)
{
	return allocation->fd >= 0 ? 0 : space_offset(allocation->home);
}

static CUresult file_make(struct allocation *allocation)
{
	struct trailer trailer = {.bytes = allocation->bytes};
	owned(close) int fd = memfd_create("mete-sim-memory", MFD_CLOEXEC);

	memcpy(trailer.magic, trailer_magic, sizeof(trailer.magic));
	device_uuid(allocation->device, trailer.uuid);
	if (fd < 0 || ftruncate(fd, (off_t)(allocation->bytes + 4096)) < 0 ||
	    pwrite(fd, &trailer, sizeof(trailer), (off_t)allocation->bytes) !=
		    (ssize_t)sizeof(trailer))
		return CUDA_ERROR_OUT_OF_MEMORY;
	allocation->fd = take_fd(&fd);
	return CUDA_SUCCESS;
}

static void allocation_fill(const struct allocation *allocation, uint64_t from, uint64_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, allocation_fd(allocation),
			(off_t)(allocation_offset(allocation) + from));

	if (at == MAP_FAILED)
		return;
	space_pattern(at, bytes);
	munmap(at, bytes);
}

static void allocation_pattern(const struct allocation *allocation)
{
	if (!space_has_pattern())
		return;
	if (allocation->bytes <= VMM_PATTERN_WHOLE) {
		allocation_fill(allocation, 0, allocation->bytes);
		return;
	}
	allocation_fill(allocation, 0, VMM_PATTERN_END);
	allocation_fill(allocation, allocation->bytes - VMM_PATTERN_END, VMM_PATTERN_END);
}

static CUresult allocation_back(struct allocation *allocation)
{
	CUresult r;

	if (allocation->properties.requestedHandleTypes)
		r = file_make(allocation);
	else
		r = store_open() >= 0 && space_reserve(allocation->bytes, SPACE_BLOCK, 0,
						       &allocation->home) == 0
			    ? CUDA_SUCCESS
			    : CUDA_ERROR_OUT_OF_MEMORY;
	if (r == CUDA_SUCCESS)
		allocation_pattern(allocation);
	return r;
}

static void allocation_free(struct allocation *allocation)
{
	if (allocation->fd >= 0) {
		close(allocation->fd);
	} else if (allocation->home) {
		fallocate(vmm.store, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (off_t)allocation_offset(allocation), (off_t)allocation->bytes);
		space_release(allocation->home, allocation->bytes);
	}
	if (!allocation->imported)
		device_give(allocation->device, allocation->bytes);
	free(allocation);
}

/* Drops a handle or a mapping; frees what nobody needs any more. */
static void allocation_drop(struct allocation *allocation, unsigned handles, unsigned mappings)
{
	bool gone;

	pthread_mutex_lock(&vmm.lock);
	allocation->handles -= handles;
	allocation->mappings -= mappings;
	if (handles && !allocation->handles)
		handle_remove(HANDLE_ALLOCATION, allocation);
	gone = !allocation->handles && !allocation->mappings;
	pthread_mutex_unlock(&vmm.lock);
	if (gone)
		allocation_free(allocation);
}

static CUresult allocation_new(const CUmemAllocationProp *properties, int device, uint64_t bytes,
			       struct allocation **ret_allocation)
{
	struct allocation *allocation = calloc(1, sizeof(*allocation));

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
	struct allocation *allocation;
	CUresult r = driver_ready();

	if (r == CUDA_SUCCESS)
		r = properties_check(properties);
	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_handle || !bytes || bytes % SPACE_BLOCK || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (faults_at(FAULTS_ALLOCATION, properties->location.id) == FAULTS_OUT_OF_MEMORY)
		return CUDA_ERROR_OUT_OF_MEMORY;
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

static CUresult allocation_named(CUmemGenericAllocationHandle handle,
				 struct allocation **ret_allocation)
{
	struct allocation *allocation = (struct allocation *)(uintptr_t)handle;
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
	struct allocation *allocation;
	CUresult r = allocation_named(handle, &allocation);

	if (r == CUDA_SUCCESS)
		allocation_drop(allocation, 1, 0);
	return r;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *ret_handle, void *address)
{
	struct space_range range;
	struct allocation *allocation;
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_handle || space_find((uint64_t)(uintptr_t)address, &range) < 0 ||
	    range.kind != SPACE_MAPPED)
		return CUDA_ERROR_INVALID_VALUE;
	allocation = range.owner;
	pthread_mutex_lock(&vmm.lock);
	if (!allocation->handles && handle_add(HANDLE_ALLOCATION, allocation) < 0)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	else
		allocation->handles++;
	pthread_mutex_unlock(&vmm.lock);
	if (r == CUDA_SUCCESS)
		*ret_handle = (CUmemGenericAllocationHandle)(uintptr_t)allocation;
	return r;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
						CUmemGenericAllocationHandle handle)
{
	struct allocation *allocation;
	CUresult r = allocation_named(handle, &allocation);

	if (r != CUDA_SUCCESS)
		return r;
	if (!properties)
		return CUDA_ERROR_INVALID_VALUE;
	*properties = allocation->properties;
	return CUDA_SUCCESS;
}

/* ---- sharing --------------------------------------------------------------------------------- */

CUresult cuMemExportToShareableHandle(void *ret_descriptor, CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType type, unsigned long long flags)
{
	struct allocation *allocation;
	CUresult r = allocation_named(handle, &allocation);
	int fd;

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_descriptor || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
	    allocation->fd < 0)
		return CUDA_ERROR_INVALID_VALUE;
	fd = fcntl(allocation->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return CUDA_ERROR_OPERATING_SYSTEM;
	memcpy(ret_descriptor, &fd, sizeof(fd));
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

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *ret_handle, void *descriptor,
					CUmemAllocationHandleType type)
{
	CUmemAllocationProp properties = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
	};
	struct allocation *allocation;
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
	allocation->imported = true;
	allocation->fd = fcntl((int)(intptr_t)descriptor, F_DUPFD_CLOEXEC, 0);
	if (allocation->fd < 0 || handle_add(HANDLE_ALLOCATION, allocation) < 0) {
		allocation_free(allocation);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	*ret_handle = (CUmemGenericAllocationHandle)(uintptr_t)allocation;
	return CUDA_SUCCESS;
}

/* ---- mappings -------------------------------------------------------------------------------- */

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
		  CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct space_range range = {.base = address, .bytes = bytes, .kind = SPACE_MAPPED}, other;
	struct reservation *reservation;
	struct allocation *allocation;
	CUresult r = allocation_named(handle, &allocation);

	if (r != CUDA_SUCCESS)
		return r;
	if (!bytes || address % SPACE_BLOCK || bytes % SPACE_BLOCK || offset || flags ||
	    bytes > allocation->bytes)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&vmm.lock);
	reservation = reservation_around(address, bytes);
	if (reservation && space_next(address, address + bytes, &other) < 0) {
		range.device = allocation->device;
		range.owner = allocation;
		range.reserved = reservation->base;
		range.delta = (uint64_t)(uintptr_t)space_shadow(address) - address;
		if (space_back_file(address, bytes, allocation_fd(allocation),
				    allocation_offset(allocation)) < 0 ||
		    space_add(&range) < 0) {
			space_unback(address, bytes);
			r = CUDA_ERROR_OUT_OF_MEMORY;
		} else {
			reservation->mappings++;
			allocation->mappings++;
		}
	} else {
		r = CUDA_ERROR_INVALID_VALUE;
	}
	pthread_mutex_unlock(&vmm.lock);
	if (r == CUDA_SUCCESS)
		clock_spend(segment_settings()->map_ns);
	return r;
}

/* Is the area whole mappings, one after the other? */
static bool mappings_whole(uint64_t address, uint64_t bytes)
{
	uint64_t end = address + bytes;
	struct space_range range;

	if (!bytes || end < address)
		return false;
	for (; address < end; address = range.base + range.bytes)
		if (space_find(address, &range) < 0 || range.base != address ||
		    range.kind != SPACE_MAPPED || range.base + range.bytes > end)
			return false;
	return true;
}

static void mapping_end(uint64_t address, uint64_t *ret_bytes)
{
	struct reservation *reservation;
	struct space_range range;

	*ret_bytes = SPACE_BLOCK;
	if (space_remove(address, &range) < 0)
		return;
	*ret_bytes = range.bytes;
	space_unback(range.base, range.bytes);
	pthread_mutex_lock(&vmm.lock);
	reservation = reservation_around(range.base, range.bytes);
	if (reservation)
		reservation->mappings--;
	pthread_mutex_unlock(&vmm.lock);
	allocation_drop(range.owner, 0, 1);
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes)
{
	CUresult r = driver_ready();
	uint64_t done, n;

	if (r != CUDA_SUCCESS)
		return r;
	if (!mappings_whole(address, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	for (done = 0; done < bytes; done += n)
		mapping_end(address + done, &n);
	clock_spend(segment_settings()->unmap_ns);
	return CUDA_SUCCESS;
}

static CUresult access_check(const CUmemAccessDesc *access, size_t n)
{
	if (!access || !n)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < n; i++) {
		CUresult r;

		if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
			return CUDA_ERROR_INVALID_VALUE;
		r = driver_device(access[i].location.id);
		if (r != CUDA_SUCCESS)
			return r;
		if (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
		    access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
		    access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			return CUDA_ERROR_INVALID_VALUE;
	}
	return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc *access, size_t n)
{
	CUresult r = driver_ready();
	struct space_range range;

	if (r == CUDA_SUCCESS)
		r = access_check(access, n);
	if (r != CUDA_SUCCESS)
		return r;
	if (!mappings_whole(address, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	for (uint64_t at = address; at < address + bytes; at = range.base + range.bytes) {
		if (space_find(at, &range) < 0)
			return CUDA_ERROR_INVALID_VALUE;
		for (size_t i = 0; i < n; i++) {
			uint64_t bit = 1ull << access[i].location.id;

			if (access[i].location.id != range.device &&
			    !device_peer(range.device, access[i].location.id))
				return CUDA_ERROR_INVALID_DEVICE;
			range.readable &= ~bit;
			range.writable &= ~bit;
			if (access[i].flags & CU_MEM_ACCESS_FLAGS_PROT_READ)
				range.readable |= bit;
			if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
				range.writable |= bit;
		}
		if (space_change(&range) < 0)
			return CUDA_ERROR_INVALID_VALUE;
	}
	clock_spend(segment_settings()->map_ns);
	return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
			CUdeviceptr address)
{
	struct space_range range;
	CUresult r = driver_ready();
	uint64_t bit;

	if (r != CUDA_SUCCESS)
		return r;
	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	r = driver_device(location->id);
	if (r != CUDA_SUCCESS)
		return r;
	if (space_find(address, &range) < 0 || range.kind != SPACE_MAPPED)
		return CUDA_ERROR_INVALID_VALUE;
	bit = 1ull << location->id;
	*flags = range.writable & bit	? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
		 : range.readable & bit ? CU_MEM_ACCESS_FLAGS_PROT_READ
					: CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}
