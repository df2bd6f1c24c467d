/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                 sim/nvml/nvml.h
 * Shared by the files of the simulated libnvidia-ml.so.1. Every function of cuda/nvml.def is
 * exported; those that are not implemented answer NVML_ERROR_NOT_SUPPORTED and report it with
 * METE_SIM_LOG=1 (nvml_stubs.c).
 *
 * Only the count of nvmlInit() is kept: answers always come from the segment.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/nvml_types.h"
#include "base/macros.h"
#include "sim/machine/parts.h"
#include "sim/machine/segment.h"

/* Has nvmlInit() been called and the handle come from us? *ret_number: the device's. Then
 * NVML_SUCCESS; or UNINITIALIZED, INVALID_ARGUMENT, GPU_IS_LOST. */
must_check nvmlReturn_t nvml_device(nvmlDevice_t device, int *ret_number);
must_check nvmlReturn_t nvml_ready(void);
nvmlDevice_t nvml_handle(int number);

/* The same, also for parts of GPUs, whose numbers are their places (sim/machine/parts.h).
 * nvml_device() answers INVALID_ARGUMENT for a part, and both do for a part that has been
 * destroyed. */
must_check nvmlReturn_t nvml_device_or_part(nvmlDevice_t device, int *ret_place);

/* Also for a lost device, so that it can be identified. */
must_check nvmlReturn_t nvml_known(nvmlDevice_t device, int *ret_place);

/* A place may have another part later. So many parts of one place have handles of their own. */
enum { NVML_MADE = 64 };
static inline uint32_t nvml_made(int place)
{
	return parts_is_part((uint32_t)place) ? atomic_load(&parts_get(place)->made) % NVML_MADE
					      : 0;
}

/* The row of sim/machine/mig.def with the driver's id. NULL: the GPU has none. */
const struct mig_profile *nvml_profile(int gpu, unsigned int id, uint32_t *ret_number);

/* INVALID_ARGUMENT for a NULL buffer, INSUFFICIENT_SIZE for a short one. */
must_check nvmlReturn_t nvml_text(char *to, unsigned int size, const char *text);

/* A process that has a context or memory on a device. */
struct nvml_process {
	unsigned int pid; /* as the caller's PID namespace has it */
	uint32_t slot;
	uint32_t instance, compute_instance; /* of MIG; UINT32_MAX: a whole GPU */
	uint64_t used_bytes;
};

/* The processes that use the device, or any part of it; dead ones are reaped first. The array has
 * SEGMENT_PROCESSES_MAX places. */
size_t nvml_processes(int number, struct nvml_process *ret);

/* Microseconds of the wall clock at a time of the simulator's. */
unsigned long long nvml_wall_us(uint64_t clock_ns);

/* In percent, watts, and degrees: modelled from what the compute engine does. */
unsigned nvml_busy(int number);
unsigned nvml_power_mw(int number);
unsigned nvml_temperature(int number);

/* Called by nvml_stubs.c. */
nvmlReturn_t nvml_missing(const char *symbol);
