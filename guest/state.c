/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/state.h"

#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* Linux 4.14 */
#endif

#include "guest/entry/agent.h"
#include "guest/memory/arrays.h"
#include "guest/memory/blocks.h"
#include "guest/time/capture.h"
#include "guest/contexts/context.h"
#include "guest/contexts/contexts.h"
#include "guest/memory/credit.h"
#include "guest/time/flight.h"
#include "guest/futex.h"
#include "guest/memory/graphs.h"
#include "guest/memory/heaps.h"
#include "guest/link/link.h"
#include "guest/movable/movable.h"
#include "guest/movable/movable_lend.h"
#include "guest/memory/memory.h"
#include "guest/memory/moves.h"
#include "guest/notice.h"
#include "guest/answers/nvml.h"
#include "guest/memory/oversize.h"
#include "guest/memory/pools.h"
#include "guest/time/presence.h"
#include "guest/driver/real.h"
#include "guest/say.h"
#include "guest/memory/scarce.h"
#include "guest/time/turns.h"
#include "guest/memory/vmm.h"

struct state state;

/* What pthread_atfork() is made of; it is not a function of libc.so.6 itself. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso);

static uint32_t thread_id(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

/* Over one of our two pages, which other threads read meanwhile: that is what it is for. The system
 * call itself, as tools that watch mmap() would take it for a race. */
static int map_over(const void *page, int protection, int flags, int fd)
{
	/* The offset goes by the stack, of which an int would fill one half. */
	long at = syscall(SYS_mmap, page, WIRE_PAGE_SIZE, protection, flags | MAP_FIXED, fd, 0L);

	return at == -1 ? -errno : 0;
}

/* 1: this process, or the one that it is a copy of, has joined. In the copy struct state is empty,
 * however it was made. */
static _Atomic uint32_t has_joined;

/* The own page, as long as it is the one: at another address as well, and which memory it is. */
static struct {
	struct wire_own_page *also;
	ino_t inode;
} own;

/* The new daemon's tenant page, while that may say that a gate is open behind which memory is not
 * there: it has not read the inventory, or does not believe it. So long the page of the guest
 * without its daemon stands. */
static struct wire_tenant_page *held;

static void held_forget(void)
{
	if (held)
		munmap(held, WIRE_PAGE_SIZE);
	held = NULL;
}

/* Whether the daemon counts all that is out here. */
static _Atomic uint32_t trust;
enum { TRUST_NOT_YET, TRUST_KNOWN, TRUST_NEVER };

static bool is_early(const struct wire_tenant_page *page)
{
	return movable_is_away() && (atomic_load(&trust) != TRUST_KNOWN ||
				     __atomic_load_n(&page->not_open, __ATOMIC_SEQ_CST) == 0);
}

void state_page_trust(bool known)
{
	atomic_store(&trust, known ? TRUST_KNOWN : TRUST_NEVER);
	if (!known)
		say("meted does not know that memory of this program is in the host's memory: it "
		    "cannot come back, and calls that need it fail");
}

bool state_is_forgotten(void)
{
	return atomic_load(&trust) == TRUST_NEVER && movable_is_away();
}

bool state_page_waits(void)
{
	if (held && is_early(held))
		return true;
	/* One step for everybody who reads it. */
	if (held && syscall(SYS_mremap, held, WIRE_PAGE_SIZE, WIRE_PAGE_SIZE,
			    MREMAP_MAYMOVE | MREMAP_FIXED, &guest_tenant_page) == -1)
		held_forget();
	held = NULL;
	return false;
}

static void own_forget(void)
{
	if (own.also)
		munmap(own.also, WIRE_PAGE_SIZE);
	own.also = NULL;
}

/* A child of fork() is another guest: it must not write the parent's page, use its socket or
 * think that its threads are there. Joins again when it calls CUDA. */
static void forget_parts(void)
{
	int saved = errno;

	best_effort(map_over(&guest_tenant_page, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1));
	best_effort(
		map_over(&guest_own_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1));
	own_forget();
	held_forget();
#define CHILD(part) part##_forget();
#include "guest/child.def"
#undef CHILD
	atomic_store(&has_joined, 0);
	errno = saved;
}

static void forget(void)
{
	memset(&state, 0, sizeof(state));
	forget_parts();
}

/* clone(), called by itself, tells nobody: there the kernel empties struct state (Linux 4.14), and
 * what else is to be forgotten is forgotten when the child joins. */
static void watch_forks(void)
{
	static _Atomic uint32_t watched;

	if (atomic_exchange(&watched, 1) == 0)
		best_effort(__register_atfork(NULL, NULL, forget, NULL));
	best_effort(syscall(SYS_madvise, &state, sizeof(state), MADV_WIPEONFORK));
}

static bool is_copy(void)
{
	return atomic_load(&has_joined) && !atomic_load(&state.has_joined);
}

/* A copy that nobody heard of being made has the driver's state as well, and the driver does not
 * know: what the copy takes, contexts included, is its parent's to the driver, and in no book of
 * the copy's. CUDA has nothing to offer it: a child of fork() is answered this by the driver. */
static _Atomic uint32_t driver_began;

void state_driver_begins(void)
{
	atomic_store(&driver_began, 1);
}

static int join(void)
{
	int r;

	if (is_copy())
		forget_parts();
	watch_forks();
	presence_start();
	link_open();
	r = agent_start();
	if (r == 0) {
		atomic_store(&state.has_joined, 1);
		atomic_store(&has_joined, 1);
		return link_joined();
	}
	say("the guest's agent thread cannot be started: %s",
	    r == -EAGAIN ? "too many processes or threads" : "no memory");
	return r;
}

CUresult state_ready(void)
{
	uint32_t was = atomic_load_explicit(&state.join, memory_order_acquire);
	CUresult r;
	int saved;

	if (likely(was == STATE_JOINED))
		return CUDA_SUCCESS;
	r = real_open();
	if (r != CUDA_SUCCESS)
		return r;
	saved = errno;
	was = STATE_NEW;
	if (atomic_compare_exchange_strong(&state.join, &was, STATE_JOINING)) {
		atomic_store(&state.joiner, thread_id());
		if (is_copy() && atomic_load(&driver_began))
			r = CUDA_ERROR_NOT_INITIALIZED;
		else if (join() < 0)
			r = CUDA_ERROR_SYSTEM_NOT_READY;
		atomic_store(&state.error, (int)r);
		was = r == CUDA_SUCCESS ? STATE_JOINED : STATE_REFUSED;
		atomic_store(&state.join, was);
		futex_wake_all(&state.join);
	}
	while (was == STATE_JOINING || was == STATE_NEW) {
		if (atomic_load(&state.joiner) == thread_id())
			break;
		futex_wait(&state.join, STATE_JOINING, 100, FUTEX_PRIVATE_FLAG);
		was = atomic_load(&state.join);
	}
	errno = saved;
	return was == STATE_REFUSED ? (CUresult)atomic_load(&state.error) : CUDA_SUCCESS;
}

void state_retry(void)
{
	uint32_t was = STATE_REFUSED;

	atomic_compare_exchange_strong(&state.join, &was, STATE_NEW);
}

static int page_bad(int fd, const char *which)
{
	struct stat about;
	int seals = fcntl(fd, F_GET_SEALS);

	if (syscall(SYS_fstat, fd, &about) == 0 && about.st_size == WIRE_PAGE_SIZE && seals >= 0 &&
	    (seals & F_SEAL_SHRINK) && (seals & F_SEAL_GROW))
		return 0;
	say("the daemon's %s page is not sealed or not %d bytes long: it is not used", which,
	    WIRE_PAGE_SIZE);
	return -EINVAL;
}

/* Finds the tenant's devices, which may stand in another order than before. */
static void devices_take(const struct wire_tenant_page *page, uint32_t count)
{
	uint32_t known = atomic_load(&state.devices);

	for (uint32_t i = 0; i < known; i++)
		atomic_store(&state.device[i].gone, 1);
	for (uint32_t w = 0; w < count; w++) {
		uint32_t i = 0;

		while (i < known && memcmp(state.device[i].uuid, page->device[w].uuid, 16) != 0)
			i++;
		if (i == STATE_DEVICES)
			continue;
		if (i == known) {
			memcpy(state.device[i].uuid, page->device[w].uuid, 16);
			known++;
		}
		atomic_store(&state.device[i].wire_index, w);
		atomic_store(&state.device[i].gone, 0);
	}
	atomic_store(&state.devices, known);
	for (int i = 0; i < STATE_ORDINALS; i++)
		atomic_store(&state.ordinal[i], 0);
}

static int tenant_page_bad(const struct wire_tenant_page *page)
{
	if (page->magic == WIRE_PAGE_MAGIC && page->devices <= WIRE_DEVICES)
		return 0;
	say("the daemon's tenant page has another version: update mete's library or its daemon");
	return -EINVAL;
}

/* Once the new page is in its place nobody writes the old one: what is counted there is complete.
 */
static int adopt_own(int fd)
{
	struct wire_own_page *page = mmap(NULL, WIRE_PAGE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
	struct stat about;
	int r = page == MAP_FAILED || syscall(SYS_fstat, fd, &about) != 0 ? -errno : 0;

	if (page == MAP_FAILED)
		return r;
	if (r == 0)
		r = map_over(&guest_own_page, PROT_READ | PROT_WRITE, MAP_SHARED, fd);
	if (r < 0) {
		munmap(page, WIRE_PAGE_SIZE);
		return r;
	}
	if (own.also && own.inode != about.st_ino)
		moves_carry(own.also);
	own_forget();
	own.also = page;
	own.inode = about.st_ino;
	return 0;
}

/* Twice: in the first round somebody may still write where another device is shown now. */
static void publish_all(void)
{
	uint32_t devices = atomic_load(&state.devices);

	for (uint32_t i = 0; i < 2 * devices; i++)
		credit_publish((int)(i % devices));
	movable_publish();
}

int state_adopt_pages(int own_fd, int tenant_fd)
{
	owned(close) int mine = own_fd, tenant = tenant_fd;
	struct wire_tenant_page *seen;
	int r;

	if (page_bad(mine, "own") < 0 || page_bad(tenant, "tenant") < 0)
		return -EINVAL;
	seen = mmap(NULL, WIRE_PAGE_SIZE, PROT_READ, MAP_SHARED, tenant, 0);
	if (seen == MAP_FAILED)
		return -errno;
	r = tenant_page_bad(seen);
	if (r == 0)
		r = adopt_own(mine);
	held_forget();
	atomic_store(&trust, TRUST_NOT_YET);
	if (r == 0 && !is_early(seen))
		r = map_over(&guest_tenant_page, PROT_READ, MAP_SHARED, tenant);
	else if (r == 0)
		held = seen;
	if (r == 0) {
		devices_take(seen, seen->devices);
		atomic_store(&state.on_loss, seen->on_daemon_loss);
		__atomic_store_n(&guest_own_page.magic, WIRE_PAGE_MAGIC, __ATOMIC_RELAXED);
		__atomic_store_n(&guest_own_page.size, (uint32_t)sizeof(guest_own_page),
				 __ATOMIC_RELAXED);
		publish_all();
	}
	if (seen != held)
		munmap(seen, WIRE_PAGE_SIZE);
	return r;
}

void state_lost(void)
{
	struct wire_tenant_page *copy = mmap(NULL, WIRE_PAGE_SIZE, PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint32_t gate = WIRE_GATE_OPEN;

	atomic_store(&state.lost, 1);
	if (copy == MAP_FAILED)
		return;
	held_forget();
	memcpy(copy, &guest_tenant_page, sizeof(guest_tenant_page));
	/* What is in the store waits for a daemon. */
	if (atomic_load(&state.on_loss) != WIRE_LOSS_CONTINUE || movable_is_away())
		gate = WIRE_GATE_CLOSED;
	copy->not_open = gate == WIRE_GATE_OPEN ? 0 : 1;
	memset(copy->turns, 0, sizeof(copy->turns));
	for (uint32_t w = 0; w < WIRE_DEVICES; w++)
		copy->device[w].gate = gate;
	/* Moving the finished copy over the page is one step for everybody who reads it. */
	if (syscall(SYS_mremap, copy, WIRE_PAGE_SIZE, WIRE_PAGE_SIZE, MREMAP_MAYMOVE | MREMAP_FIXED,
		    &guest_tenant_page) == -1)
		munmap(copy, WIRE_PAGE_SIZE);
}

static int find_uuid(const uint8_t *uuid)
{
	uint32_t devices = atomic_load(&state.devices);

	for (uint32_t i = 0; i < devices; i++)
		if (memcmp(state.device[i].uuid, uuid, 16) == 0)
			return atomic_load(&state.device[i].gone) ? -1 : (int)i;
	return -1;
}

int state_device(CUdevice device)
{
	CUuuid uuid = {{0}};
	int index;
	CUresult r;

	if (device >= 0 && device < STATE_ORDINALS && atomic_load(&state.ordinal[device]) != 0) {
		index = atomic_load(&state.ordinal[device]);
		return index > 0 ? index - 1 : -1;
	}
	/* The second version names a MIG instance where there is one. */
	r = real_has(cuDeviceGetUuid_v2) ? real(cuDeviceGetUuid_v2)(&uuid, device)
					 : real(cuDeviceGetUuid)(&uuid, device);
	if (r != CUDA_SUCCESS || !state_joined())
		return -1;
	index = find_uuid((const uint8_t *)uuid.bytes);
	if (device >= 0 && device < STATE_ORDINALS)
		atomic_store(&state.ordinal[device], (int8_t)(index < 0 ? -1 : index + 1));
	return index;
}

int state_context_device(CUcontext context)
{
	int index = contexts_device(context);
	CUcontext popped;
	CUdevice device;
	CUresult r;

	if (index > -2 || !context)
		return context ? index : -1;
	if (real(cuCtxPushCurrent_v2)(context) != CUDA_SUCCESS)
		return -1;
	r = real(cuCtxGetDevice)(&device);
	best_effort(real(cuCtxPopCurrent_v2)(&popped));
	if (r != CUDA_SUCCESS)
		return -1;
	index = state_device(device);
	contexts_add(context, index);
	return index;
}

int state_current_device(void)
{
	CUcontext context = NULL;

	if (real(cuCtxGetCurrent)(&context) != CUDA_SUCCESS || !context)
		return -1;
	return state_context_device(context);
}
