/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/time/pass.h"

#include <errno.h>
#include <string.h>

#define TABLE_STREAMS
#define TABLE_KINDS
#include "guest/contexts/contexts.h"
#include "guest/contexts/devices.h"
#include "guest/driver/real.h"
#include "guest/process/state.h"
#include "guest/say.h"
#include "guest/tables.h"
#include "guest/time/capture.h"
#include "guest/time/flight.h"
#include "guest/time/gate.h"
#include "guest/time/own_streams.h"
#include "guest/time/want.h"

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

/* The gate was not open when the trampoline checked it, or a sample is due. */
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
		if (has_stream && stream == CU_STREAM_PER_THREAD)
			own_streams_used(contexts_of_stream(stream));
	}
	do {
		while (!gate_is_open(device)) {
			/* Captured work is not submitted. A capture that waited here could not end,
			 * while the close waits for it to end. */
			if (has_stream && capture_enter(slot, stream))
				return 0;
			answer = gate_wait_with(slot, device);
			if (answer != 0)
				return answer;
		}
	} while (due && has_stream && flight_wait(slot, device, stream));
	/* Where its next calls are no samples, it is not known when it submits. */
	if (__atomic_load_n(&slot->period, __ATOMIC_RELAXED) <= 1)
		presence_passes();
	want_stir(device);
	return 0;
}

uint32_t pass_slow(struct presence_slot *slot, unsigned index, const uint64_t *registers,
		   const uint64_t *stack)
{
	int saved = errno;
	uint32_t answer;

	atomic_store(&slot->state, PRESENCE_IN);
	if (table_kind[index] == TRAMPOLINE_TOUCH) {
		answer = gate_pass_residency(slot);
	} else {
		answer = pass_gate(slot, index, registers, stack);
	}
	errno = saved;
	return answer;
}

uint32_t pass_refuse(unsigned index)
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
