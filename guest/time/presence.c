/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/contexts/devices.h"
#include "guest/process/join.h"
#include "guest/time/presence.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include <linux/membarrier.h>
#include <sys/mman.h>

#include "guest/clock.h"
#include "guest/driver/real.h"
#include "guest/futex.h"
#include "guest/process/parts.h"
#include "guest/time/jumps.h"

enum {
	CHUNK_BYTES = 64 << 10,
};

_Static_assert(offsetof(struct presence_slot, return_address) == 0 &&
		       offsetof(struct presence_slot, saved_rbx) == 8 &&
		       offsetof(struct presence_slot, countdown) == 16,
	       "trampolines.S knows these offsets");
_Static_assert(WIRE_DEVICES < 256, "trampolines.S looks at the low byte of not_open");
_Static_assert(sizeof(struct presence_slot) == 256, "slots lie in rows, aligned");

/* An array of slots, after a head of a slot's size. */
struct chunk {
	_Atomic(struct chunk *) next;
	unsigned slots;
} __attribute__((aligned(256)));

static struct {
	struct chunk head;
	struct presence_slot slot[PRESENCE_FIRST];
} first;

static struct {
	_Atomic uint32_t started;
	_Atomic uint32_t has_key;
	pthread_key_t key;
	_Atomic uint64_t submissions; /* those of finished countdowns */
	_Atomic uint64_t refills;
	_Atomic uint64_t passed_ns; /* when a thread last went on to submit */
	int has_membarrier;
	struct futex_lock barrier_lock;
	void *barrier_page;
} presence;

/* It appears to be taken, so that a thread without a slot takes the slow path once. */
struct presence_slot guest_unregistered = {.return_address = 1};
__thread struct presence_slot *guest_slot __attribute__((tls_model("initial-exec"))) =
	&guest_unregistered;
uint32_t guest_not_resident;

static struct presence_slot *slots_of(struct chunk *chunk)
{
	return (struct presence_slot *)(void *)(chunk + 1);
}

static unsigned count_of(const struct chunk *chunk)
{
	return chunk == &first.head ? (unsigned)PRESENCE_FIRST : chunk->slots;
}

static struct presence_slot *take_in(struct chunk *chunk)
{
	struct presence_slot *slot = slots_of(chunk);

	for (unsigned i = 0; i < count_of(chunk); i++, slot++) {
		uint32_t was = 0;

		if (atomic_load_explicit(&slot->taken, memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_strong(&slot->taken, &was, 1))
			return slot;
	}
	return NULL;
}

static struct chunk *new_chunk(void)
{
	struct chunk *chunk =
		mmap(NULL, CHUNK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (chunk == MAP_FAILED)
		return NULL;
	chunk->slots = CHUNK_BYTES / sizeof(struct presence_slot) - 1;
	return chunk;
}

static struct presence_slot *take_slot(void)
{
	struct chunk *chunk = &first.head, *next, *expected;
	struct presence_slot *slot;

	for (;;) {
		slot = take_in(chunk);
		if (slot)
			return slot;
		next = atomic_load(&chunk->next);
		if (!next) {
			next = new_chunk();
			if (!next)
				return NULL;
			expected = NULL;
			if (!atomic_compare_exchange_strong(&chunk->next, &expected, next)) {
				munmap(next, CHUNK_BYTES);
				next = expected;
			}
		}
		chunk = next;
	}
}

void presence_passes(void)
{
	atomic_store(&presence.passed_ns, now_ns());
}

uint64_t presence_passed_ns(void)
{
	return atomic_load(&presence.passed_ns);
}

/* Its calls until now were no samples: it may have submitted just before. */
static void tell_unseen(const struct presence_slot *slot)
{
	if (__atomic_load_n(&slot->period, __ATOMIC_RELAXED) > 1)
		presence_passes();
}

/* A thread ends, perhaps inside a call: its slots are emptied in any case. */
static void thread_ends(void *value)
{
	struct presence_slot *slot = value, *next;

	guest_slot = &guest_unregistered;
	do {
		next = slot->own;
		slot->own = NULL;
		__atomic_store_n(&slot->return_address, 0, __ATOMIC_RELEASE);
		atomic_store(&slot->state, PRESENCE_IN);
		tell_unseen(slot);
		atomic_store(&slot->taken, 0);
		slot = next;
	} while (slot && slot != value);
}

/* Once per process: chooses how threads are made to publish their stores. */
int presence_start(void)
{
	if (atomic_exchange(&presence.started, 1))
		return 0;
	if (!atomic_load(&presence.has_key) && pthread_key_create(&presence.key, thread_ends) == 0)
		atomic_store(&presence.has_key, 1);
	presence.has_membarrier =
		syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
	return 0;
}

/* Without membarrier (a seccomp filter): removing write access from a page that was written makes
 * the kernel interrupt every processor that runs one of our threads, which orders its stores as
 * well. */
static void barrier_by_page(void)
{
	futex_lock_take(&presence.barrier_lock);
	if (!presence.barrier_page) {
		void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				  -1, 0);

		presence.barrier_page = page == MAP_FAILED ? NULL : page;
	}
	if (presence.barrier_page) {
		best_effort(mprotect(presence.barrier_page, 4096, PROT_READ | PROT_WRITE));
		__atomic_fetch_add((uint32_t *)presence.barrier_page, 1, __ATOMIC_SEQ_CST);
		best_effort(mprotect(presence.barrier_page, 4096, PROT_READ));
	}
	futex_lock_give(&presence.barrier_lock);
}

void presence_barrier(void)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (!presence.has_membarrier ||
	    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
		barrier_by_page();
}

/* Called by the slot's thread, or by the agent. If both do it at once the sum of submissions is
 * inexact. */
static void set_countdown(struct presence_slot *slot, uint32_t calls)
{
	uint32_t left = __atomic_load_n(&slot->countdown, __ATOMIC_RELAXED);
	uint32_t period = __atomic_load_n(&slot->period, __ATOMIC_RELAXED);

	if (left < period) {
		atomic_fetch_add(&presence.submissions, period - left);
		__atomic_fetch_add(&slot->submitted, period - left, __ATOMIC_RELAXED);
	}
	if (calls <= 1)
		tell_unseen(slot);
	__atomic_store_n(&slot->period, calls, __ATOMIC_RELEASE);
	__atomic_store_n(&slot->countdown, calls, __ATOMIC_SEQ_CST);
}

void presence_refill(struct presence_slot *slot, uint32_t calls)
{
	atomic_fetch_add(&presence.refills, 1);
	set_countdown(slot, calls);
}

uint32_t presence_register(unsigned index)
{
	int saved = errno;
	CUresult r = state_ready();
	struct presence_slot *slot;

	(void)index;
	if (r != CUDA_SUCCESS)
		return r;
	best_effort(presence_start());
	slot = take_slot();
	if (!slot)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* Its first call takes the slow path: the agent may be about to report that we are idle. */
	set_countdown(slot, 1);
	if (!atomic_load(&presence.has_key) || pthread_setspecific(presence.key, slot) != 0) {
		atomic_store(&slot->taken, 0);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	slot->own = slot;
	guest_slot = slot;
	/* Adds the current context, in case no hook saw it being made. */
	best_effort(devices_current());
	errno = saved;
	return 0;
}

/* The thread has left the calls of all its slots. */
static void empty(struct presence_slot *first_of_ring)
{
	struct presence_slot *slot = first_of_ring;

	do {
		atomic_store(&slot->state, PRESENCE_IN);
		slot->waits_since_ns = 0;
		__atomic_store_n(&slot->return_address, 0, __ATOMIC_RELEASE);
		slot = slot->own;
	} while (slot != first_of_ring);
}

int presence_again(const void *caller, uintptr_t stack)
{
	struct presence_slot *now = guest_slot, *slot = now->own;
	int saved = errno;

	if (real_is_driver(caller))
		return -1;
	if (jumps_left(stack)) {
		empty(now);
		return 0;
	}
	while (slot != now && __atomic_load_n(&slot->return_address, __ATOMIC_RELAXED) != 0)
		slot = slot->own;
	if (slot == now) {
		slot = take_slot();
		errno = saved;
		if (!slot)
			return CUDA_ERROR_OUT_OF_MEMORY;
		set_countdown(slot, 1);
		slot->own = now->own;
		now->own = slot;
	}
	guest_slot = slot;
	return 0;
}

void presence_walk_start(struct presence_walk *walk)
{
	*walk = (struct presence_walk){.chunk = &first.head};
}

/* A slot that was seen empty once has passed: the barrier came before, so a thread that enters
 * later sees the gate. If the countdown fell by two, the call that we saw has ended; by one may be
 * that call's own step. */
static bool slot_passed(struct presence_slot *slot, struct presence_walk *walk)
{
	uint32_t countdown = __atomic_load_n(&slot->countdown, __ATOMIC_ACQUIRE);

	if (__atomic_load_n(&slot->return_address, __ATOMIC_ACQUIRE) == 0 ||
	    atomic_load(&slot->state) == PRESENCE_WAITS)
		return true;
	if (walk->seen && walk->countdown - countdown >= 2 &&
	    walk->countdown - countdown < PRESENCE_SAMPLE / 2)
		return true;
	if (!walk->seen || walk->countdown < countdown)
		walk->countdown = countdown;
	walk->seen = 1;
	return false;
}

bool presence_walk_step(struct presence_walk *walk)
{
	struct chunk *chunk = walk->chunk;

	while (chunk) {
		for (; walk->next < count_of(chunk); walk->next++, walk->seen = 0)
			if (!slot_passed(&slots_of(chunk)[walk->next], walk))
				return false;
		chunk = atomic_load(&chunk->next);
		walk->chunk = chunk;
		walk->next = 0;
	}
	return true;
}

uint64_t presence_slot_submissions(const struct presence_slot *slot)
{
	uint32_t left = __atomic_load_n(&slot->countdown, __ATOMIC_ACQUIRE);
	uint32_t period = __atomic_load_n(&slot->period, __ATOMIC_ACQUIRE);

	return __atomic_load_n(&slot->submitted, __ATOMIC_ACQUIRE) +
	       (left < period ? period - left : 0);
}

/* The next thread that gets a slot continues its countdown. */
uint64_t presence_submissions(void)
{
	uint64_t sum = atomic_load(&presence.submissions);

	for (struct chunk *chunk = &first.head; chunk; chunk = atomic_load(&chunk->next))
		for (unsigned i = 0; i < count_of(chunk); i++) {
			struct presence_slot *slot = &slots_of(chunk)[i];
			uint32_t left = __atomic_load_n(&slot->countdown, __ATOMIC_RELAXED);
			uint32_t period = __atomic_load_n(&slot->period, __ATOMIC_RELAXED);

			if (left < period)
				sum += period - left;
		}
	return sum;
}

void presence_snapshot(struct presence_snapshot *ret_snapshot)
{
	struct presence_snapshot now = {.refills = atomic_load(&presence.refills)};

	for (struct chunk *chunk = &first.head; chunk; chunk = atomic_load(&chunk->next))
		for (unsigned i = 0; i < count_of(chunk); i++) {
			struct presence_slot *slot = &slots_of(chunk)[i];

			now.countdowns += __atomic_load_n(&slot->countdown, __ATOMIC_ACQUIRE);
			if (__atomic_load_n(&slot->return_address, __ATOMIC_ACQUIRE) != 0)
				now.inside++;
		}
	*ret_snapshot = now;
}

void presence_sample_soon(void)
{
	for (struct chunk *chunk = &first.head; chunk; chunk = atomic_load(&chunk->next))
		for (unsigned i = 0; i < count_of(chunk); i++)
			set_countdown(&slots_of(chunk)[i], 1);
}

bool presence_all_sampled(void)
{
	for (struct chunk *chunk = &first.head; chunk; chunk = atomic_load(&chunk->next))
		for (unsigned i = 0; i < count_of(chunk); i++)
			if (atomic_load(&slots_of(chunk)[i].taken) &&
			    __atomic_load_n(&slots_of(chunk)[i].period, __ATOMIC_ACQUIRE) > 1)
				return false;
	return true;
}

bool presence_is_still(void)
{
	presence_barrier();
	for (struct chunk *chunk = &first.head; chunk; chunk = atomic_load(&chunk->next))
		for (unsigned i = 0; i < count_of(chunk); i++) {
			struct presence_slot *slot = &slots_of(chunk)[i];

			if (__atomic_load_n(&slot->return_address, __ATOMIC_ACQUIRE) != 0 ||
			    __atomic_load_n(&slot->countdown, __ATOMIC_ACQUIRE) != 1)
				return false;
		}
	return true;
}

bool presence_captures(const struct presence_slot *mine)
{
	for (struct chunk *chunk = &first.head; chunk; chunk = atomic_load(&chunk->next)) {
		struct presence_slot *slot = slots_of(chunk);

		for (unsigned i = 0; i < count_of(chunk); i++, slot++)
			if (slot != mine &&
			    __atomic_load_n(&slot->return_address, __ATOMIC_ACQUIRE) != 0 &&
			    atomic_load(&slot->state) == PRESENCE_CAPTURES &&
			    __atomic_load_n(&slot->countdown, __ATOMIC_ACQUIRE) ==
				    __atomic_load_n(&slot->captured_at, __ATOMIC_RELAXED))
				return true;
	}
	return false;
}

/* Is the slot taken, and one of the ring of `mine`? */
static bool returns(const struct presence_slot *mine, const struct presence_slot *slot)
{
	const struct presence_slot *one = mine;

	if (mine == &guest_unregistered || slot->return_address == 0)
		return false;
	while (one != slot && one->own != mine)
		one = one->own;
	return one == slot;
}

void presence_forget(void)
{
	struct presence_slot *mine = guest_slot;
	struct presence_walk walk;

	presence_walk_start(&walk);
	for (struct chunk *chunk = walk.chunk; chunk; chunk = atomic_load(&chunk->next))
		for (unsigned i = 0; i < count_of(chunk); i++) {
			struct presence_slot *slot = &slots_of(chunk)[i], *own = slot->own;

			/* The forking thread may be inside calls that are to return. */
			if (returns(mine, slot))
				continue;
			memset(slot, 0, sizeof(*slot));
			slot->own = own;
		}
	guest_slot = &guest_unregistered;
	atomic_store(&presence.started, 0);
	memset(&presence.barrier_lock, 0, sizeof(presence.barrier_lock));
}
