/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tenant is doing on a device, in its user's words. `mete ps`, its JSON and the metrics all
 * show the result of doing_of().
 *
 * Pure: no clock, no daemon; facts in, one of doing.def out. The words are their callers'.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/gate.h"

enum doing {
#define DOING(NAME, name, now, meaning) DOING_##NAME,
#include "core/doing.def"
#undef DOING
	DOING_STATES
};

struct doing_facts {
	uint32_t reasons;      /* why its gate is not open: gate_reasons() */
	bool present;	       /* it has a process there */
	bool asks;	       /* an allocation of it waits */
	bool says;	       /* its guests report whether they are busy, ... */
	bool busy;	       /* ... and this is their last report */
	bool stands;	       /* a thread of it waits at a gate */
	bool governed;	       /* the device's tenants take turns */
	bool paused;	       /* a process whose work does not end is stopped */
	bool coupled;	       /* its work waits for its own threads, or for something outside */
	uint64_t undrained_ns; /* since its gate was closed, while its work goes on; 0: it does not
				*/
	uint64_t longest_ns;   /* the longest that this took and ended */
};

enum doing doing_of(const struct doing_facts *facts);

/* "waits-for-memory", for scripts; "unknown" for a value of a newer meted. */
const char *doing_name(uint32_t doing);

/* The word for its turns: "-", "silent", "capped", "waits", "runs", "hangs", "suspended". */
const char *doing_now(uint32_t doing);
