/* SPDX-License-Identifier: Apache-2.0 */
/*                                                          tests/gpu/lab.h
 * What claims are asked with: a context on device 0, a few kernels, words that host and device
 * share, mapped memory, and a clock. Whatever fails ends the claim as "failed".
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "tests/gpu/claim.h"

#define MiB (1024ull * 1024)

struct lab {
	CUdevice device;
	CUcontext context;
	CUmodule module;
};

struct lab lab_begin(void); /* the context is current */
CUfunction lab_kernel(const struct lab *lab, const char *name);
bool lab_simulated(void); /* the driver is ours */
/* For figures of a device's time: the simulated one's depend on the host and on what was set. */
void lab_needs_real_time(void);
size_t lab_free_bytes(void);
uint64_t lab_now_us(void);

/* One thread. Arguments are pointers to values, as for cuLaunchKernel. */
CUresult lab_launch(CUfunction kernel, CUstream stream, void **arguments);
CUstream lab_stream(unsigned flags);
CUevent lab_event(unsigned flags);
unsigned lab_word(CUdeviceptr address); /* after all work of blocking streams */

/* A word that host and device see; 0 at first. */
struct lab_word {
	_Atomic uint32_t *host;
	CUdeviceptr device;
};

struct lab_word lab_shared_word(void);

/* A kernel that runs in the stream until it is told to end; it has begun when start returns. Host
 * memory may wait for kernels, so that all of it is made before any of them starts. */
struct lab_busy {
	struct lab_word begun, end;
	CUfunction kernel;
};

struct lab_busy lab_busy_new(const struct lab *lab);
void lab_busy_start(struct lab_busy *busy, CUstream stream);
void lab_busy_end(struct lab_busy *busy);

/* Runs the function in a thread without a context, to its end. */
void lab_in_thread(void *(*function)(void *), void *argument);

/* A child that does not outlive its parent, whatever ends it. */
pid_t lab_fork(void);

/* Mapped memory of cuMemCreate. */
CUmemAllocationProp lab_property(const struct lab *lab, bool shareable);
CUmemGenericAllocationHandle lab_create(const struct lab *lab, size_t bytes);
CUdeviceptr lab_reserve(size_t bytes);
void lab_map(const struct lab *lab, CUdeviceptr at, CUmemGenericAllocationHandle handle,
	     size_t bytes);
