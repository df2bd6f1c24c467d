/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process as a client of MPS (NVIDIA's multi-process service): a control daemon listens in the
 * folder that $CUDA_MPS_PIPE_DIRECTORY names (sim/mps/control.c). Without the variable none is
 * searched for, so that a daemon of the host is not disturbed. The kernels of one daemon's clients
 * run at once, each with its part of the device (engine_core.h).
 *
 * Between the two there is a line of text each way on a Unix socket, because NVIDIA's protocol is
 * not documented: "join" is answered with "ok SERVER MILLI DEVICE=BYTES ..."; the connection stays
 * open until the process has ended.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

/* May the process make a context on this device, by its compute mode and the processes that are
 * there? Joins the daemon the first time. Thread-safe. */
bool mps_may_begin(int device);

/* The most memory that the process may take of a device; UINT64_MAX: there is no limit. */
uint64_t mps_limit(int device);
