/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the example workloads share: the driver, found the way any program finds it
 * (dlopen("libcuda.so.1")), their few settings, and the verdict at the end.
 *
 * A workload checks itself: it prints one line "NAME ok key=value ..." and exits 0, or says what is
 * wrong and exits 1. What is computed does not depend on time or on neighbours, so that
 * `checksum=` is the same alone and shared.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/prototypes.h"
#include "cuda/types.h"

struct workload {
	const char *name;
	CUdevice device;
	CUcontext context;
	CUmodule module;
	uint64_t random; /* state of workload_random() */
	uint64_t checksum;
	bool segments; /* workload_alloc() maps physical memory instead of cuMemAlloc() */
	size_t held_bytes, peak_bytes; /* what workload_alloc() holds, and held at most */
#define DRIVER(symbol) __typeof__(&symbol) symbol;
#include "examples/driver.def"
#undef DRIVER
};

/* Opens the driver, device 0 and the module of `ptx`. Settings are arguments "name=value"; one
 * that is not in `settings` (NULL-terminated) is refused with the list of those that are. */
void workload_begin(struct workload *w, const char *name, const char *ptx, int argc, char **argv,
		    const char *const settings[]);

/* A number given as an argument, "size=64", with an optional suffix K, M or G (times 1024 each). */
uint64_t workload_setting(int argc, char **argv, const char *name, uint64_t otherwise);

/* Completes its work, prints "NAME: WHERE" and waits for a line of input or for its end. */
void workload_pause(struct workload *w, const char *where);

/* Prints the verdict and gives everything back. Returns the program's exit status. */
int workload_end(struct workload *w, const char *format, ...) printf_like(2, 3);

/* Ends the program with a sentence. */
void workload_fail(struct workload *w, const char *format, ...) printf_like(2, 3) noreturn_;

/* Fails with the call's text and the driver's name of the error, unless it succeeded. */
#define workload_try(w, call) workload_tried((w), (call), #call)
void workload_tried(struct workload *w, CUresult result, const char *call);

/* Device memory; counted. */
CUdeviceptr workload_alloc(struct workload *w, size_t bytes);
void workload_free(struct workload *w, CUdeviceptr pointer, size_t bytes);
CUfunction workload_kernel(struct workload *w, const char *name);

/* Launches over one dimension with 128 threads a block, at most 64 blocks; on the default stream
 * where `stream` is NULL. Arguments are pointers to the values, as for cuLaunchKernel. */
void workload_launch(struct workload *w, CUstream stream, CUfunction kernel, size_t threads,
		     void **arguments);

/* splitmix64 from a fixed seed: the same numbers in every run. */
uint64_t workload_random(struct workload *w);
float workload_random_unit(struct workload *w); /* -1 .. 1, exact in float */

/* FNV-1a over memory, into the checksum. */
void workload_sum(struct workload *w, const void *data, size_t bytes);

uint64_t workload_now_ns(void);
