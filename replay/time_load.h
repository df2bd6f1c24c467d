/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant of `mete replay --time` and its notation: words like "name=a", "weight=200" and the
 * other fields of a share; "kernel=100us"; "processes=3"; "load=busy"; "load=poisson:20/s:5ms"
 * (requests at random times, 20 per second on average, each 5 ms of kernels);
 * "load=pulse:30ms:50ms" (30 ms of kernels, then a pause of 50 ms); "join=10s"; "leave=50s"; and
 * "8x" in front for eight such tenants.
 */
#pragma once

#include "base/fault.h"
#include "core/turns/turns.h"

enum time_kind { TIME_BUSY, TIME_POISSON, TIME_PULSE };

struct time_load {
	char name[32];
	struct turns_share share;
	uint64_t kernel_ns;
	uint32_t processes;
	enum time_kind kind;
	uint64_t work_ns;	    /* of a request or pulse */
	uint64_t pause_ns;	    /* the mean between arrivals; or after a pulse */
	uint64_t join_ns, leave_ns; /* leave_ns = 0: it stays */
};

/* Sets 100 us kernels, one process, always busy, and the default share. */
void time_load_init(struct time_load *load);
/* Parses one tenant's words; *ret_count is how many such tenants there are. -EINVAL. */
must_check int time_load_parse(const char *text, struct time_load *ret_load, uint32_t *ret_count,
			       struct fault *why);
/* Parses a time like core/share does: "100us", "5ms", "2s". -EINVAL. */
#define TIME_LOAD_MOST (100 * 86400 * 1000000000ull)
must_check int time_load_duration(const char *text, uint64_t *ret_ns);
