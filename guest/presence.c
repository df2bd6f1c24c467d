/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/presence.h"

#include <limits.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include <linux/membarrier.h>
#include <sys/mman.h>

#define TABLE_STREAMS
#define TABLE_KINDS
#include "guest/capture.h"
#include "guest/futex.h"
#include "guest/real.h"
#include "guest/say.h"
#include "guest/state.h"
#include "guest/tables.h"

enum {
	SPIN_NS = 5000,
	GATE_MS = 100, /* a waiter looks around this often: the daemon may have died */
	CHUNK_BYTES = 64 << 10,
};

_Static_assert(offsetof(struct presence_slot, return_address) == 0 &&
		       offsetof(struct presence_slot, saved_rbx) == 8 &&
		       offsetof(struct presence_slot, countdown) == 16,
	       "trampolines.S knows these offsets");
_Static_assert(WIRE_DEVICES < 256, "trampolines.S looks at the low byte of not_open");

/* Slots in a row behind a head of a slot's size. */
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
	_Atomic uint64_t submissions; /* of finished countdowns */
	int has_membarrier;
	struct futex_lock barrier_lock;
	void *barrier_page;
} presence;

/* Looks taken, and never is: a thread without a slot takes the slow path once. */
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

/* The thread ends. It may have been ended inside a call: the slot is emptied in any case. */
static void thread_ends(void *value)
{
	struct presence_slot *slot = value;

	guest_slot = &guest_unregistered;
	__atomic_store_n(&slot->return_address, 0, __ATOMIC_RELEASE);
	atomic_store(&slot->state, PRESENCE_IN);
	atomic_store(&slot->taken, 0);
}

void presence_start(void)
{
	if (atomic_exchange(&presence.started, 1))
		return;
	if (!atomic_load(&presence.has_key) && pthread_key_create(&presence.key, thread_ends) == 0)
		atomic_store(&presence.has_key, 1);
	presence.has_membarrier =
		syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/* Without membarrier (a seccomp filter): taking a right away from a page that was written makes the
 * kernel interrupt every processor that runs one of our threads, which orders its stores as well.
 */
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

uint32_t presence_register(unsigned index)
{
	int saved = errno;
	CUresult r = state_ready();
	struct presence_slot *slot;

	(void)index;
	if (r != CUDA_SUCCESS)
		return r;
	presence_start();
	slot = take_slot();
	if (!slot)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (slot->countdown == 0)
		__atomic_store_n(&slot->countdown, PRESENCE_SAMPLE, __ATOMIC_RELAXED);
	if (!atomic_load(&presence.has_key) || pthread_setspecific(presence.key, slot) != 0) {
		atomic_store(&slot->taken, 0);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	guest_slot = slot;
	/* Contexts that no hook saw being made are learned of here. */
	best_effort(state_current_device());
	errno = saved;
	return 0;
}

/* The stream that call `index` submits to; false: none among its arguments. */
static bool stream_of(unsigned index, const uint64_t *registers, const uint64_t *stack,
		      CUstream *ret_stream)
{
	unsigned position = table_stream[index];
	CUstream stream;

	if (index == API_cuLaunchKernelEx || index == API_cuLaunchKernelEx_ptsz) {
		const CUlaunchConfig *config = (const void *)(uintptr_t)registers[0];

		if (!config)
			return false;
		stream = config->hStream;
	} else if (position == 255) {
		return false;
	} else {
		stream = (CUstream)(uintptr_t)(position < 6 ? registers[position]
							    : stack[position - 6]);
	}
	if (!stream && api_rows[index].stream != API_PLAIN)
		stream = CU_STREAM_PER_THREAD;
	*ret_stream = stream;
	return true;
}

static bool spans_devices(unsigned index)
{
	const char *name = api_rows[index].symbol;

	return strstr(name, "Peer") || strstr(name, "MultiDevice");
}

/* The device whose gate a call has to pass; -1: all of them. A kernel's device is that of the
 * stream it is launched into, which need not be the current context's. */
static int device_of(unsigned index, bool has_stream, CUstream stream)
{
	CUcontext context = NULL;

	if (atomic_load(&state.devices) <= 1)
		return 0;
	if (spans_devices(index))
		return -1;
	if (has_stream && stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD) {
		if (real(cuStreamGetCtx)(stream, &context) != CUDA_SUCCESS)
			return -1;
		return state_context_device(context);
	}
	return state_current_device();
}

static bool gate_open(int device)
{
	if (__atomic_load_n(&guest_tenant_page.not_open, __ATOMIC_SEQ_CST) == 0)
		return true;
	return device >= 0 && state_page(device, gate) == WIRE_GATE_OPEN;
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool spin(int device)
{
	uint64_t end = now_ns() + SPIN_NS;

	do {
		for (int i = 0; i < 32; i++)
			__builtin_ia32_pause();
		if (gate_open(device))
			return true;
	} while (now_ns() < end);
	return false;
}

static void count_waiting(int64_t change)
{
	uint64_t now = atomic_fetch_add(&state.waiting, (uint64_t)change) + (uint64_t)change;

	__atomic_store_n(&guest_own_page.waiting, now, __ATOMIC_RELAXED);
}

/* Waits on the word that the daemon changes and wakes, in slices. */
static void wait_in_slices(int device)
{
	const uint32_t *word = &guest_tenant_page.not_open;
	uint32_t value;

	for (uint32_t i = 0; device < 0 && i < atomic_load(&state.devices); i++)
		if (state_page((int)i, gate) != WIRE_GATE_OPEN)
			device = (int)i;
	if (device >= 0)
		word = &guest_tenant_page.device[atomic_load(&state.device[device].wire_index)]
				.gate;
	value = __atomic_load_n(word, __ATOMIC_RELAXED);
	if (value != 0)
		futex_wait(word, value, GATE_MS, 0);
}

/* Until the gate is open. Returns 0, or what the call answers instead. */
static uint32_t wait_at_gate(int device)
{
	uint32_t answer = 0;

	count_waiting(1);
	if (!spin(device))
		while (!gate_open(device)) {
			if (atomic_load(&state.lost) &&
			    atomic_load(&state.on_loss) == WIRE_LOSS_FAIL) {
				answer = CUDA_ERROR_SYSTEM_NOT_READY;
				break;
			}
			wait_in_slices(device);
		}
	count_waiting(-1);
	return answer;
}

uint32_t presence_wait(int device)
{
	int saved = errno;
	uint32_t answer = gate_open(device) ? 0 : wait_at_gate(device);

	errno = saved;
	return answer;
}

/* The gate was not open when the trampoline looked. */
static uint32_t pass_gate(struct presence_slot *slot, unsigned index, const uint64_t *registers,
			  const uint64_t *stack)
{
	CUstream stream = NULL;
	bool has_stream = stream_of(index, registers, stack, &stream);
	int device = device_of(index, has_stream, stream);
	uint32_t answer = 0;

	while (answer == 0 && !gate_open(device)) {
		/* What is captured is not submitted; and a capture that stood here could not end,
		 * while the close waits for it to end. */
		if (has_stream && capture_enter(slot, stream))
			return 0;
		atomic_store(&slot->state, PRESENCE_WAITS);
		answer = wait_at_gate(device);
		/* Present again, and only then the last look. */
		atomic_store(&slot->state, PRESENCE_IN);
		atomic_thread_fence(memory_order_seq_cst);
	}
	return answer;
}

static uint32_t pass_residency(struct presence_slot *slot)
{
	uint32_t value;

	while ((value = __atomic_load_n(&guest_not_resident, __ATOMIC_SEQ_CST)) != 0) {
		atomic_store(&slot->state, PRESENCE_WAITS);
		futex_wait(&guest_not_resident, value, GATE_MS, FUTEX_PRIVATE_FLAG);
		atomic_store(&slot->state, PRESENCE_IN);
		atomic_thread_fence(memory_order_seq_cst);
	}
	return 0;
}

uint32_t presence_slow(struct presence_slot *slot, unsigned index, const uint64_t *registers,
		       const uint64_t *stack)
{
	int saved = errno;
	uint32_t answer;

	atomic_store(&slot->state, PRESENCE_IN);
	if (table_kind[index] == TRAMPOLINE_TOUCH) {
		answer = pass_residency(slot);
	} else {
		if (slot->countdown == 0) {
			__atomic_store_n(&slot->countdown, PRESENCE_SAMPLE, __ATOMIC_RELAXED);
			atomic_fetch_add(&presence.submissions, PRESENCE_SAMPLE);
		}
		answer = pass_gate(slot, index, registers, stack);
	}
	errno = saved;
	return answer;
}

uint32_t presence_refuse(unsigned index)
{
	static _Atomic uint32_t said;

	if (index >= TABLE_CUDA) {
		if (atomic_exchange(&said, 1) == 0)
			say("%s is not available: %s", nvml_rows[index - TABLE_CUDA].symbol,
			    api_refusal_texts[nvml_rows[index - TABLE_CUDA].refusal]);
		return NVML_ERROR_NO_PERMISSION;
	}
	if (atomic_exchange(&said, 1) == 0)
		say("%s is not available: %s", api_rows[index].symbol,
		    api_refusal_texts[api_rows[index].refusal]);
	return CUDA_ERROR_NOT_SUPPORTED;
}

void presence_walk_start(struct presence_walk *walk)
{
	*walk = (struct presence_walk){.chunk = &first.head};
}

/* Seen outside once is enough: the barrier came before, so that whoever enters later sees the gate.
 * A countdown that fell by two means that the call we saw has ended: by one may be its own step. */
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

/* A countdown goes on with the next thread that gets the slot. */
uint64_t presence_submissions(void)
{
	uint64_t sum = atomic_load(&presence.submissions);

	for (struct chunk *chunk = &first.head; chunk; chunk = atomic_load(&chunk->next))
		for (unsigned i = 0; i < count_of(chunk); i++) {
			uint32_t left =
				__atomic_load_n(&slots_of(chunk)[i].countdown, __ATOMIC_RELAXED);

			if (left != 0)
				sum += PRESENCE_SAMPLE - left;
		}
	return sum;
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

void presence_forget(void)
{
	struct presence_slot *mine = guest_slot;
	struct presence_walk walk;

	presence_walk_start(&walk);
	for (struct chunk *chunk = walk.chunk; chunk; chunk = atomic_load(&chunk->next))
		for (unsigned i = 0; i < count_of(chunk); i++)
			/* The forking thread may be inside a call that is to return. */
			if (&slots_of(chunk)[i] != mine || mine->return_address == 0)
				memset(&slots_of(chunk)[i], 0, sizeof(struct presence_slot));
	guest_slot = &guest_unregistered;
	atomic_store(&presence.started, 0);
	memset(&presence.barrier_lock, 0, sizeof(presence.barrier_lock));
}
