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
	NVML_PROCESSES = 1024, /* the most that are listed of one tenant on one device */
};

/* The index of a device (guest/process/state.h). -1: not one of the tenant's. NVML_WHOLE: the
 * tenant observes it, and gets the real answer. Joins the daemon; the call must return any result
 * that is not NVML_SUCCESS. */
must_check nvmlReturn_t nvml_device(nvmlDevice_t device, int *ret_index);

/* The index of the tenant's device, gone or not; -1: not the tenant's; NVML_FOREIGN: known to be
 * another's, and undivided. The guest has joined. */
enum { NVML_FOREIGN = -2, NVML_WHOLE = -3 };
int nvml_own(nvmlDevice_t device);

/* Remembers that the handle is another's undivided GPU, until the tenant gets a further device. */
void nvml_remember_foreign(nvmlDevice_t device);

/* Is it a device that only others use? A GPU of which the tenant has a part counts as one, too.
 * `index` is from nvml_device(). */
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

/* The tenant's processes' percentage of the device's recent time: of its multiprocessors, and of
 * its memory. NVML_ERROR_NOT_SUPPORTED: this device does not report it. */
must_check nvmlReturn_t nvml_utilization(nvmlDevice_t device, int index,
					 nvmlUtilization_t *ret_utilization);
