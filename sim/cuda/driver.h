/* SPDX-License-Identifier: Apache-2.0 */
/*                                                               sim/cuda/driver.h
 * The process's driver: whether cuInit() has been called, in this process and not in its parent,
 * and whether the calling thread may call the driver now.
 *
 * Set up lazily and once. After fork() the child of an initialised process gets
 * CUDA_ERROR_NOT_INITIALIZED from everything, as on a GPU.
 */
#pragma once

#include <stdbool.h>

#include "cuda/types.h"
#include "base/macros.h"
#include "sim/cuda/handle.h"

/* SUCCESS, NOT_INITIALIZED, or NOT_PERMITTED inside a host function. Starts nothing. */
must_check CUresult driver_ready(void);

/* As driver_ready(), and INVALID_HANDLE for a value that is no such handle. */
must_check CUresult driver_knows(enum handle_kind kind, const void *handle);

/* As driver_ready(), and INVALID_DEVICE for a number that names no device. */
must_check CUresult driver_device(CUdevice device);

/* Around a host function or stream callback on the worker that calls it. */
void driver_enter_callback(void);
void driver_leave_callback(void);

/* Around the body of a _ptsz or _ptds entry point: stream 0 is then the thread's own default. */
void driver_enter_per_thread(void);
void driver_leave_per_thread(void);
bool driver_is_per_thread(void);

/* The CUDA version of this driver, 12090 for 12.9. */
int driver_version(void);

/* One lock for the process's table of contexts, modules, libraries and pools. Not held while
 * waiting for streams. */
void driver_lock(void);
void driver_unlock(void);

/* For features that the simulator lacks: driver_lacks() names one. NOT_SUPPORTED. */
CUresult driver_missing(const char *symbol);

/* One line on stderr, once each and 16 at most, that names a feature that the program needs and the
 * simulator lacks: a program's own message is often just a number. Nothing with METE_SIM_LOG=off.
 */
void driver_lacks(const char *format, ...) printf_like(1, 2);

/* One line on stderr with METE_SIM_LOG=on: what went wrong inside. */
void driver_log(const char *format, ...) printf_like(1, 2);
