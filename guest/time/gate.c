/* SPDX-License-Identifier: Apache-2.0 */
/* The slow path of calls that submit work: the gate is not open, or a sample is due. */
#include "guest/contexts/devices.h"
#include "guest/process/pages.h"
#include "guest/time/gate.h"

#include <limits.h>
#include <string.h>

#define TABLE_STREAMS
#define TABLE_KINDS
#include "guest/clock.h"
#include "guest/driver/real.h"
#include "guest/futex.h"
#include "guest/process/notice.h"
#include "guest/process/state.h"
#include "guest/say.h"
#include "guest/tables.h"
#include "guest/time/capture.h"
#include "guest/time/flight.h"
#include "guest/time/presence.h"
#include "guest/time/turns.h"

enum {
	SPIN_NS = 5000,
	GATE_MS = 100, /* how often a waiter looks around: the daemon may have died */
	BETWEEN_MS = 1,
};

/* The stream that call `index` submits to; false: it is not among the arguments. */
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
	const char *name = api_symbol(&api_rows[index]);

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
		return devices_of_context(context);
	}
	return devices_current();
}

static bool gate_open(int device)
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
		if (gate_open(device))
			return true;
	} while (now_ns() < end);
	return false;
}

/* Two threads may come here in one order and leave in the other: the last one writes the current
 * value. */
static void show(uint64_t *place, _Atomic uint64_t *count)
{
	uint64_t now;

	do {
		now = atomic_load(count);
		__atomic_store_n(place, now, __ATOMIC_SEQ_CST);
	} while (atomic_load(count) != now);
}

/* `device` -1: at all of them. */
static void count_waiting(int device, uint64_t change)
{
	atomic_fetch_add(&state.waiting, change);
	show(&guest_own_page.waiting, &state.waiting);
	for (int i = 0; i < (int)atomic_load(&state.devices); i++) {
		if (device >= 0 && device != i)
			continue;
		atomic_fetch_add(&state.device[i].waiting, change);
		show(&guest_own_page.waiting_on[atomic_load(&state.device[i].wire_index)],
		     &state.device[i].waiting);
	}
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

	/* Whoever hears that we want to run must see that we wait. */
	count_waiting(device, 1);
	turns_stir(device);
	if (!spin(device))
		while (!gate_open(device)) {
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
			turns_stir(device);
		}
	count_waiting(device, -1ull);
	atomic_fetch_add_explicit(&waits, 1, memory_order_relaxed);
	return answer;
}

uint32_t gate_wait(int device)
{
	int saved = errno;
	uint32_t answer = gate_open(device) ? 0 : wait_at_gate(device);

	errno = saved;
	return answer;
}

/* With the slot taken: waits until the gate is open. The thread is marked as present again before
 * the gate is looked at for the last time. */
static uint32_t wait_with(struct presence_slot *slot, int device)
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

	while (answer == 0 && !gate_open(device))
		answer = wait_with(slot, device);
	errno = saved;
	return answer;
}

/* The gate was not open when the trampoline looked, or a sample is due. */
static uint32_t pass_gate(struct presence_slot *slot, unsigned index, const uint64_t *registers,
			  const uint64_t *stack)
{
	CUstream stream = NULL;
	bool has_stream = stream_of(index, registers, stack, &stream);
	bool due = __atomic_load_n(&slot->countdown, __ATOMIC_RELAXED) == 0;
	int device = device_of(index, has_stream, stream);
	uint32_t answer = 0;

	if (due) {
		slot->sampled = __atomic_load_n(&slot->period, __ATOMIC_RELAXED);
		presence_refill(slot, flight_period(device));
	}
	do {
		while (!gate_open(device)) {
			/* Captured work is not submitted. A capture that waited here could not end,
			 * while the close waits for it to end. */
			if (has_stream && capture_enter(slot, stream))
				return 0;
			answer = wait_with(slot, device);
			if (answer != 0)
				return answer;
		}
	} while (due && has_stream && flight_wait(slot, device, stream));
	turns_stir(device);
	return 0;
}

/* Tells the daemon that we want our memory, and waits until all of it is on the device: a thread
 * that submits nothing waits at no gate. */
static uint32_t pass_residency(struct presence_slot *slot)
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
		turns_stir(-1);
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
	turns_stir(-1);
	futex_wait(&guest_not_resident, value, GATE_MS, FUTEX_PRIVATE_FLAG);
	count_waiting(-1, -1ull);
	return true;
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
			say("%s is not available: %s", nvml_symbol(&nvml_rows[index - TABLE_CUDA]),
			    api_refusal_texts[nvml_rows[index - TABLE_CUDA].refusal]);
		return NVML_ERROR_NO_PERMISSION;
	}
	if (atomic_exchange(&said, 1) == 0)
		say("%s is not available: %s", api_symbol(&api_rows[index]),
		    api_refusal_texts[api_rows[index].refusal]);
	return CUDA_ERROR_NOT_SUPPORTED;
}
