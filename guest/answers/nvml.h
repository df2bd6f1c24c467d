/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML as a tenant sees it: its devices and no others (guest/answers/nvml_devices.c), each as large
 * as its limit, on which only its own processes run. Calls that NVML would refuse are still refused
 * with NVML's error, because every answer starts from the real library's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"
#include "cuda/nvml_prototypes.h"
#include "wire/wire.h"

enum {
	NVML_PROCESSES = 1024, /* of one tenant on one device that are listed */
};

/* The index of a device (guest/process/state.h), or -1: not one of the tenant's, or NVML_WHOLE: it
 * is, and the tenant observes it: the real answer is its answer. Joins the daemon;
 * the call must return any result that is not NVML_SUCCESS. */
must_check nvmlReturn_t nvml_device(nvmlDevice_t device, int *ret_index);

/* Which of the tenant's devices it is, gone or not; -1: none of them; NVML_FOREIGN: it is known to
 * be another's, and undivided. The guest has joined. */
enum { NVML_FOREIGN = -2, NVML_WHOLE = -3 };
int nvml_own(nvmlDevice_t device);

/* Is another's whole GPU, in which there are no parts, for as long as the tenant gets no device. */
void nvml_remember_foreign(nvmlDevice_t device);

/* A device that is not the tenant's: what is used of it is of others. A GPU of which the tenant has
 * a part is one, too. `index` is nvml_device()'s. */
bool nvml_foreign(int index);

/* The tenant's processes on a device, from the daemon: a mapped table, to be released by
 * nvml_processes_drop(). NVML_SUCCESS, or the result that the call must return. */
struct nvml_processes {
	struct wire_process_row *rows;
	size_t count;
};
must_check nvmlReturn_t nvml_processes(int index, struct nvml_processes *ret_processes);
void nvml_processes_drop(struct nvml_processes *processes);
bool nvml_processes_has(const struct nvml_processes *processes, unsigned pid);

/* Percent of the device's recent time that the tenant's processes took: of its multiprocessors, and
 * of its memory's. NVML_ERROR_NOT_SUPPORTED: this device does not report it. */
must_check nvmlReturn_t nvml_utilization(nvmlDevice_t device, int index,
					 nvmlUtilization_t *ret_utilization);
