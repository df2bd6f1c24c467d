/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sixteen threads that submit in every way there is: kernels, copies and sets, captures and graphs,
 * host functions, stream waits, and threads that live for a few launches. For tests of the gate, on
 * any driver: the law driver, the simulator.
 */
#pragma once

#include "cuda/prototypes.h"
#include "tests/drivers/law.h"

struct load {
	api_fn_cuStreamBeginCapture_v2 *begin;
	api_fn_cuStreamEndCapture *end;
};

extern struct load load;

/* Initialises CUDA through the library, and makes what the threads need. */
void load_find(void *library);

/* A check failed: the process ends with 1. */
void load_start(void);
void load_stop(void);

/* Pieces, for tests of their own. */
CUresult load_launch(CUstream stream);
CUresult load_host(void);
CUstream load_stream(unsigned flags);
void load_set_current(CUcontext context);
void load_synchronize(CUstream stream);
unsigned long load_hosted(void);

/* Is every stream idle, by the driver's answer? */
int load_idle(void);
