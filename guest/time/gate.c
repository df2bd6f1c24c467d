/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/process/pages.h"
#include "guest/time/gate.h"

#include <errno.h>

#include "guest/clock.h"
#include "guest/futex.h"
#include "guest/process/notice.h"
#include "guest/process/state.h"
#include "guest/time/presence.h"
#include "guest/time/want.h"

enum {
	SPIN_NS = 5000,
	GATE_MS = 100, /* how often a waiting thread checks whether the daemon has died */
	BETWEEN_MS = 1,
};

bool gate_is_open(int device)
{
	if (__atomic_load_n(&guest_tenant_page.not_open, __ATOMIC_SEQ_CST) == 0)
		return true;
	return device >= 0 && state_page(device, gate) == WIRE_GATE_OPEN;
}

static bool spin(int device)
{
	uint64_t end = now_ns() + SPIN_NS;

	do {
		for (int i = 0; i < 32; i++)
			__builtin_ia32_pause();
		if (gate_is_open(device))
			return true;
	} while (now_ns() < end);
	return false;
}

/* Threads may store in another order than they count: each repeats until the stored value is
 * current. */
static void show(uint64_t *place, _Atomic uint64_t *count)
{
	uint64_t now;

	do {
		now = atomic_load(count);
		__atomic_store_n(place, now, __ATOMIC_SEQ_CST);
	} while (atomic_load(count) != now);
}

static void show_on(int device)
{
	show(&guest_own_page.waiting_on[atomic_load(&state.device[device].wire_index)],
	     &state.device[device].waiting);
}

/* `device` -1: at all devices. */
static void count_waiting(int device, uint64_t change)
{
	atomic_fetch_add(&state.waiting, change);
	show(&guest_own_page.waiting, &state.waiting);
	for (int i = 0; i < (int)atomic_load(&state.devices); i++) {
		if (device >= 0 && device != i)
			continue;
		atomic_fetch_add(&state.device[i].waiting, change);
		show_on(i);
	}
}

/* For a daemon that has come back: threads that waited before still wait. */
void gate_new_page(void)
{
	show(&guest_own_page.waiting, &state.waiting);
	for (int i = 0; i < (int)atomic_load(&state.devices); i++)
		if (!atomic_load(&state.device[i].gone))
			show_on(i);
}

/* Waits, in slices, on the gate that the daemon changes and wakes. If all devices' gates look open,
 * the daemon is about to update the summary, for which it wakes nobody. */
static void wait_in_slices(int device)
{
	const uint32_t *word = &guest_tenant_page.not_open;
	uint32_t value;
	bool summary;

	for (uint32_t w = 0; device < 0 && w < WIRE_DEVICES; w++)
		if (w < guest_tenant_page.devices &&
		    __atomic_load_n(&guest_tenant_page.device[w].gate, __ATOMIC_RELAXED) !=
			    WIRE_GATE_OPEN)
			word = &guest_tenant_page.device[w].gate;
	if (device >= 0)
		word = &guest_tenant_page.device[atomic_load(&state.device[device].wire_index)]
				.gate;
	summary = word == &guest_tenant_page.not_open;
	value = __atomic_load_n(word, __ATOMIC_RELAXED);
	if (value != 0)
		futex_wait(word, value, summary ? BETWEEN_MS : GATE_MS, 0);
}

static enum notice reason(void)
{
	return __atomic_load_n(&guest_not_resident, __ATOMIC_RELAXED) ? NOTICE_MEMORY : NOTICE_TURN;
}

static _Atomic uint64_t waits;

uint64_t gate_waits(void)
{
	return atomic_load_explicit(&waits, memory_order_relaxed);
}

/* Waits until the gate is open. Returns 0, or the result that the call must return instead. */
static uint32_t wait_at_gate(int device)
{
	uint32_t answer = 0;
	uint64_t began = 0;

	/* Counted first: when the daemon hears that we want to run, it must see that we wait. */
	count_waiting(device, 1);
	want_stir(device);
	if (!spin(device))
		while (!gate_is_open(device)) {
			if (atomic_load(&state.lost) &&
			    atomic_load(&state.on_loss) == WIRE_LOSS_FAIL) {
				answer = CUDA_ERROR_SYSTEM_NOT_READY;
				break;
			}
			if (pages_are_forgotten()) {
				answer = CUDA_ERROR_SYSTEM_NOT_READY;
				break;
			}
			notice_wait(&began, reason());
			wait_in_slices(device);
			/* The gate may have opened and closed again before we ran. */
			want_stir(device);
		}
	count_waiting(device, -1ull);
	atomic_fetch_add_explicit(&waits, 1, memory_order_relaxed);
	return answer;
}

uint32_t gate_wait(int device)
{
	int saved = errno;
	uint32_t answer = gate_is_open(device) ? 0 : wait_at_gate(device);

	errno = saved;
	return answer;
}

/* With the slot taken: waits until the gate is open. The thread is marked as present again before
 * the caller checks the gate for the last time. */
uint32_t gate_wait_with(struct presence_slot *slot, int device)
{
	uint32_t answer;

	atomic_store(&slot->state, PRESENCE_WAITS);
	answer = wait_at_gate(device);
	atomic_store(&slot->state, PRESENCE_IN);
	atomic_thread_fence(memory_order_seq_cst);
	return answer;
}

uint32_t gate_pause(int device)
{
	struct presence_slot *slot = guest_slot;
	uint32_t answer = 0;
	int saved = errno;

	while (answer == 0 && !gate_is_open(device))
		answer = gate_wait_with(slot, device);
	errno = saved;
	return answer;
}

/* Tells the daemon that we want our memory, and waits until all of it is on the device: a thread
 * that submits nothing waits at no gate. */
uint32_t gate_pass_residency(struct presence_slot *slot)
{
	uint32_t value = __atomic_load_n(&guest_not_resident, __ATOMIC_SEQ_CST);
	uint64_t began = 0;
	uint32_t answer = 0;

	if (value == 0)
		return 0;
	count_waiting(-1, 1);
	do {
		if (pages_are_forgotten()) {
			answer = CUDA_ERROR_SYSTEM_NOT_READY;
			break;
		}
		atomic_store(&slot->state, PRESENCE_WAITS);
		want_stir(-1);
		notice_wait(&began, NOTICE_MEMORY);
		futex_wait(&guest_not_resident, value, GATE_MS, FUTEX_PRIVATE_FLAG);
		atomic_store(&slot->state, PRESENCE_IN);
		atomic_thread_fence(memory_order_seq_cst);
		value = __atomic_load_n(&guest_not_resident, __ATOMIC_SEQ_CST);
	} while (value != 0);
	count_waiting(-1, -1ull);
	return answer;
}

bool gate_await_residency(void)
{
	uint32_t value = __atomic_load_n(&guest_not_resident, __ATOMIC_SEQ_CST);

	if (value == 0)
		return false;
	count_waiting(-1, 1);
	want_stir(-1);
	futex_wait(&guest_not_resident, value, GATE_MS, FUTEX_PRIVATE_FLAG);
	count_waiting(-1, -1ull);
	return true;
}
