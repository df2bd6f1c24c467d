/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads' own default streams. Nobody but its thread can ask for one, or record an event in it. So
 * it is noted which threads use theirs: at a sample (guest/time/flight.h), and at calls that wait
 * for something outside (guest/time/held.h). After the latter it is known until the thread's next
 * call what is in its stream.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cuda/types.h"

/* The calling thread uses its own stream in that context, if any; it is not known for what. */
void own_streams_used(CUcontext context);

/* Nothing was submitted there behind the call that is about to return, which guest/time/held.c
 * knows. */
void own_streams_known(CUcontext context);

/* The calling thread's number, for `state`. */
uint32_t own_streams_thread(void);

enum own_stream {
	OWN_RUNS = 0, /* or it is not known */
	OWN_STANDS,
	OWN_IS_EMPTY, /* unless something unknown was submitted to it */
};

/* Does no own stream of the context run, as far as is known? `state` tells of that of a thread, by
 * what it is known to have. *ret_stands: one stands at least. */
bool own_streams_rest(CUcontext context, enum own_stream (*state)(CUcontext, uint32_t thread),
		      bool *ret_stands);

/* The context is about to end. */
void own_streams_context_leaves(CUcontext context);
