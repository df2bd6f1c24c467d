/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real driver, opened on first use, with its functions by index.
 *
 *	CUresult r = real(cuMemAlloc_v2)(&address, bytes);
 *
 * real(x) may be called at any time and for any symbol of cuda/api.def. It opens the driver if
 * necessary. If the driver lacks the function, or there is no driver, the call returns a CUDA
 * error. A hook calls the driver only through real(), never by the exported name, which would be
 * our own trampoline.
 *
 * guest/driver/driver_file.h finds it. Refused are a driver that is this library, one that exports
 * nothing useful, and one in which two functions with different hooks share an address.
 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"
#include "cuda/api.h"
#include "cuda/nvml.h"
#include "cuda/nvml_prototypes.h"
#include "cuda/prototypes.h"

/* Slots of the real functions. Each holds a stub until it is called for the first time: the stub
 * looks the function up in the driver, and jumps to it. */
extern void *guest_real[];

/* Our exports, by the same index: the result of a look-up of that function. */
static inline void *guest_export(unsigned index)
{
	extern const char guest_entries[];
	extern const int32_t guest_export_at[];

	return (void *)(uintptr_t)(guest_entries + guest_export_at[index]);
}

#define real(symbol)                                                                               \
	((api_fn_##symbol *)__atomic_load_n(&guest_real[API_##symbol], __ATOMIC_ACQUIRE))

/* The address that real(x) calls, for code that inserts a function of its own (real_between): never
 * a stub. */
#define real_function(symbol) ((api_fn_##symbol *)real_resolve(API_##symbol))

/* NVML's functions, likewise; their library is opened by the first call. */
#define real_nvml(symbol)                                                                          \
	((nvml_fn_##symbol *)__atomic_load_n(&guest_real[API_ROWS + NVML_ROW_##symbol],            \
					     __ATOMIC_ACQUIRE))

/* Whether the driver has the symbol (opens the driver if necessary). */
#define real_has(symbol)      real_exists(API_##symbol)
#define real_has_nvml(symbol) real_exists(API_ROWS + NVML_ROW_##symbol)

int real_exists(unsigned index);

/* Opens the driver if necessary. Returns CUDA_SUCCESS, or the result that every call must
 * return. */
must_check CUresult real_open(void);

/* cuDriverGetVersion's figure (12090), 0 if there is no driver. */
int real_version(void);

/* Is the address in the driver? The caller's address distinguishes a call by the driver from one
 * by a signal handler of the program. */
bool real_is_driver(const void *address);

/* Notes that the driver handed out `address` as function `index`, which it does not export. */
void real_adopt(unsigned index, void *address);

/* From now on the trampolines and real() call `function` instead of the driver's, with presence
 * noted and the gate passed. The caller keeps the former real_function(). A function that the
 * driver lacks stays missing. The driver must be open. */
void real_between(unsigned index, void *function);

/* From the trampolines: returns where to jump for function `index`. */
void *real_resolve(unsigned index);
