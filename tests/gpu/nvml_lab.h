/* SPDX-License-Identifier: Apache-2.0 */
/*                                                        tests/gpu/nvml_lab.h
 * For claims about NVML: the first device, and further processes on it.
 */
#pragma once

#include <sys/types.h>

#include "cuda/nvml_prototypes.h"
#include "tests/gpu/lab.h"

/* Calls that have to succeed before anything can be asked; a call that the driver does not support:
 * the claim's subject does not exist here. */
#define nvml(call) nvml_must((call), #call)
void nvml_must(nvmlReturn_t r, const char *call);

/* Starts NVML. */
nvmlDevice_t nvml_device(void);

/* Whether the process is listed; its bytes, unless ret_bytes is NULL. */
bool nvml_lists(nvmlDevice_t device, pid_t pid, unsigned long long *ret_bytes);
unsigned long long nvml_bytes_of(nvmlDevice_t device, pid_t pid);

/* In use, and listed for no process. */
unsigned long long nvml_bytes_of_nobody(nvmlDevice_t device);

/* A child that does one thing with the device, has done it when this returns, and waits for its
 * end. */
pid_t child_that(void (*act)(void));
void end_child(pid_t child);

/* For such children. keep_busy(): kernels for longer than any test watches. */
void make_context(void);
void keep_busy(void);
