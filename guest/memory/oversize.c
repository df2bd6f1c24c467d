/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/memory/oversize.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <sys/syscall.h>

#include "guest/contexts/devices.h"
#include "guest/contexts/memory_place.h"
#include "guest/credit/blocks.h"
#include "guest/credit/charge.h"
#include "guest/credit/credit.h"
#include "guest/credit/memory_types.h"
#include "guest/credit/pointers.h"
#include "guest/credit/table.h"
#include "guest/credit/view.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/movable/movable.h"
#include "guest/process/parts.h"
#include "guest/process/state.h"
#include "guest/say.h"

enum {
	WINDOW = 8, /* the part of the limit that is kept for managed pages: an eighth */
	TRIES = 16, /* at charging what there is room for, ... */
	WHOLE = 4,  /* ... and so many of them at all of it */
	/* The unit of the host's part: small requests are not whole blocks there. */
	UNIT = 64 << 10,
};

/* Bytes in the host's memory, for all devices; and whether a device's driver pages on faults. */
static _Atomic uint64_t host_total;
static _Atomic uint32_t pages[STATE_DEVICES];

enum { PAGES_UNKNOWN = 0, PAGES_YES, PAGES_NO };

/* ---- whether --------------------------------------------------------------------------------- */

bool oversize_exceeds(int device, uint64_t bytes, bool small)
{
	/* Small requests share a block; as managed memory, each would have pages of its own. */
	uint64_t window = small ? 0 : state_page(device, limit_bytes) / WINDOW;
	/* For memory that can move, others' memory leaves. */
	uint64_t room = movable_on(device) ? view_left(device) : view_free_seen(device);

	return bytes > room || window > room - bytes;
}

/* Does the driver page on faults? If not, managed memory cannot be larger than the device. */
static bool driver_pages(int device)
{
	uint32_t known = atomic_load(&pages[device]);
	CUdevice ordinal;
	int value = 0;

	if (known != PAGES_UNKNOWN)
		return known == PAGES_YES;
	ordinal = devices_ordinal(device);
	if (ordinal < 0 || driver_call(real(cuDeviceGetAttribute)(
				   &value, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
				   ordinal)) != CUDA_SUCCESS)
		return false;
	atomic_store(&pages[device], value ? PAGES_YES : PAGES_NO);
	if (!value)
		say("out of memory: oversize=managed needs a driver and a device that page on "
		    "faults (concurrent managed access)");
	return value != 0;
}

/* ---- the host's memory ----------------------------------------------------------------------- */

/* The host's available memory; 0 if it is not known. */
static uint64_t host_available(void)
{
	static const char name[] = "MemAvailable:";
	int saved = errno;
	int fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/meminfo", O_RDONLY | O_CLOEXEC, 0);
	char text[512];
	long n = fd < 0 ? 0 : syscall(SYS_read, fd, text, sizeof(text) - 1);
	uint64_t kib = 0;
	const char *at;

	if (fd >= 0)
		syscall(SYS_close, fd);
	errno = saved;
	text[n > 0 ? n : 0] = '\0';
	at = strstr(text, name);
	for (at = at ? at + sizeof(name) - 1 : text + strlen(text); *at; at++) {
		if (*at >= '0' && *at <= '9')
			kib = kib * 10 + (uint64_t)(*at - '0');
		else if (*at != ' ')
			break;
	}
	return kib << 10;
}

/* Pages appear only when they are touched: so earlier promises count whole. */
static bool host_take(int device, uint64_t bytes)
{
	static _Atomic uint32_t said;
	uint64_t has = host_available(), had = atomic_load(&host_total);
	bool fits;

	do {
		fits = bytes <= has && had <= has - bytes;
	} while (fits && !atomic_compare_exchange_weak(&host_total, &had, had + bytes));
	if (!fits) {
		if (atomic_exchange(&said, 1) == 0)
			say("out of memory: with this, %lu bytes of managed memory would be in the "
			    "host's memory, of which %lu are available",
			    (unsigned long)(had + bytes), (unsigned long)has);
		return false;
	}
	atomic_fetch_add(&state.device[device].oversize, bytes);
	return true;
}

static void host_give(int device, uint64_t bytes)
{
	atomic_fetch_sub(&state.device[device].oversize, bytes);
	atomic_fetch_sub(&host_total, bytes);
}

/* ---- serving --------------------------------------------------------------------------------- */

static CUresult call(const struct memory_place *place, struct memory_request *q)
{
	CUdevice ordinal = devices_ordinal(place->device);
	CUresult r;

	/* The element sizes that cuMemAllocPitch() accepts. */
	if (q->pitch && q->element != 4 && q->element != 8 && q->element != 16)
		return CUDA_ERROR_INVALID_VALUE;
	r = driver_call(real(cuMemAllocManaged)(q->place, q->bytes,
						q->managed ? q->flags : CU_MEM_ATTACH_GLOBAL));
	if (r != CUDA_SUCCESS)
		return r;
	q->address = *(CUdeviceptr *)q->place;
	if (q->pitch)
		*(size_t *)q->pitch = q->bytes / q->height;
	/* The program does not know that the memory is managed, and gives no advice itself. */
	if (!q->managed && real_has(cuMemAdvise))
		best_effort(driver_call(real(cuMemAdvise)(
			q->address, q->bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, ordinal)));
	return r;
}

/* Charges as much as there is room for. Others may take the room first, so this tries again. The
 * daemon may have promised it to them, which the page does not show: then this asks for less and
 * less, in the end for nothing. A daemon that does not answer is asked only once more. */
static int charge(int device, uint64_t bytes, uint64_t *ret_charged)
{
	int r = CREDIT_FULL;

	for (int i = 0; i < TRIES && r != 0; i++) {
		uint64_t room = view_free_seen(device);

		room = bytes < room ? bytes : room;
		if (r == CREDIT_AWAY)
			i = TRIES - 1;
		else if (i >= WHOLE)
			room >>= 2 * (i + 1 - WHOLE);
		*ret_charged = room & ~(BLOCKS_BYTES - 1);
		/* Only the last refusal is explained. */
		r = memory_charge_outcome(device, *ret_charged,
					  i + 1 < TRIES ? CREDIT_SPARE : CREDIT_ASK);
	}
	return r;
}

static void say_once(uint64_t bytes)
{
	static _Atomic uint32_t said;

	if (atomic_exchange(&said, 1) == 0)
		say("the device cannot hold all of this program's memory: %lu bytes, and "
		    "further memory that does not fit, are managed memory, which moves by page "
		    "faults (oversize=managed)",
		    (unsigned long)bytes);
}

CUresult oversize_allocate(const struct memory_place *place, struct memory_request *q)
{
	uint64_t whole = memory_round(q->bytes), charged, host;
	struct pointer entry = {.owner = (uint64_t)(uintptr_t)place->context,
				.kind = MEMORY_OVERSIZE,
				.device = (int16_t)place->device};
	CUresult r;

	if (!q->place || (q->bytes - 1) / UNIT >= UINT32_MAX || !driver_pages(place->device) ||
	    charge(place->device, whole, &charged) != 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	host = charged < q->bytes ? (q->bytes - charged + UNIT - 1) / UNIT : 0;
	if (!host_take(place->device, host * UNIT)) {
		credit_give(place->device, charged);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	entry.bytes = charged;
	entry.detail = (uint32_t)host;
	credit_adrift(place->device, (int64_t)charged);
	r = call(place, q);
	entry.address = q->address;
	if (r == CUDA_SUCCESS && memory_remember(&entry) < 0) {
		best_effort(driver_call(real(cuMemFree_v2)(entry.address)));
		r = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (r != CUDA_SUCCESS) {
		oversize_freed(&entry);
		return r;
	}
	movable_why(WIRE_UNMOVABLE_MANAGED);
	say_once(q->bytes);
	return r;
}

void oversize_freed(const struct pointer *entry)
{
	host_give(entry->device, (uint64_t)entry->detail * UNIT);
	credit_adrift(entry->device, -(int64_t)entry->bytes); /* publishes both amounts */
	credit_give(entry->device, entry->bytes);
}

void oversize_forget(void)
{
	atomic_store(&host_total, 0);
}
