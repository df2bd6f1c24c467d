/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real driver: opened by absolute path on first use, its functions by index.
 *
 *	CUresult r = real(cuMemAlloc_v2)(&address, bytes);
 *
 * real(x) may be called at any time and for any symbol of cuda/api.def: before the driver is open
 * it opens it; what the driver lacks, or where there is no driver, answers a CUDA error. A hook
 * calls the driver by real() only, never by the exported name: that would be our own trampoline.
 *
 * Where: /usr/lib/mete/driver/ if it is there, otherwise METE_DRIVER (a directory, or the path of
 * libcuda.so.1), both absolute. Refuses: relative paths, a driver that is this library, one that
 * exports nothing of use, one in which two functions with different hooks share an address.
 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"
#include "cuda/api.h"
#include "cuda/nvml.h"
#include "cuda/nvml_prototypes.h"
#include "cuda/prototypes.h"

/* Slots of the real functions; until they are resolved, of stubs that resolve them. */
extern void *guest_real[];

/* Our exports, by the same index: what a look-up of that function is answered with. */
static inline void *guest_export(unsigned index)
{
	extern const char guest_entries[];
	extern const int32_t guest_export_at[];

	return (void *)(uintptr_t)(guest_entries + guest_export_at[index]);
}

#define real(symbol)                                                                               \
	((api_fn_##symbol *)__atomic_load_n(&guest_real[API_##symbol], __ATOMIC_RELAXED))

/* NVML's functions, likewise; their library is opened by the first call. */
#define real_nvml(symbol)                                                                          \
	((nvml_fn_##symbol *)__atomic_load_n(&guest_real[API_ROWS + NVML_ROW_##symbol],            \
					     __ATOMIC_RELAXED))

/* Whether the driver has the symbol (opens the driver where that is still to be done). */
#define real_has(symbol)      real_exists(API_##symbol)
#define real_has_nvml(symbol) real_exists(API_ROWS + NVML_ROW_##symbol)

int real_exists(unsigned index);

/* Opens the driver if need be. Returns CUDA_SUCCESS, or what every call is to answer. */
must_check CUresult real_open(void);

/* cuDriverGetVersion's figure (12090), 0 where there is no driver. */
int real_version(void);

/* Does the address lie in the driver? By the caller's address a call that the driver makes is told
 * from one that a signal handler of the program makes meanwhile. */
bool real_is_driver(const void *address);

/* The index of the exported function that the driver has at this address, or -1. */
int real_index_of(const void *address);

/* The driver handed out `address` as function `index`, which it does not export. */
void real_adopt(unsigned index, void *address);

/* From now on the trampolines, and real(), call `function` where they called the driver's: with
 * presence noted and the gate passed. The caller keeps what real() gave before. A function that the
 * driver lacks stays lacking. The driver must be open. */
void real_between(unsigned index, void *function);

/* From the trampolines: returns where to jump for function `index`. */
void *real_resolve(unsigned index);
