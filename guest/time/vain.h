/* SPDX-License-Identifier: Apache-2.0 */
/* Consecutive waits in vain; after some, waiting is suspended (guest/time/flight.c). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct presence_vain {
	uint64_t until_ns, suspended_ms;
	uint64_t last_ns; /* the last time */
	uint32_t count;
	bool doubtful; /* waits were suspended, and none has succeeded since */
};
