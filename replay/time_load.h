/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tenant of `mete replay --time` is like, and how it is written: words as "name=a",
 * "weight=200" and the other fields of a share, "kernel=100us", "processes=3", "load=busy",
 * "load=poisson:20/s:5ms" (requests at random, 20 a second in the mean, each 5 ms of kernels),
 * "load=pulse:30ms:50ms" (30 ms of kernels, then a pause of 50 ms), "join=10s", "leave=50s"; and
 * "8x" in front: eight of these.
 */
#pragma once

#include "base/fault.h"
#include "core/turns.h"

enum time_kind { TIME_BUSY, TIME_POISSON, TIME_PULSE };

struct time_load {
	char name[32];
	struct turns_share share;
	uint64_t kernel_ns;
	uint32_t processes;
	enum time_kind kind;
	uint64_t work_ns;	    /* of a request, a pulse */
	uint64_t pause_ns;	    /* between arrivals in the mean; after a pulse */
	uint64_t join_ns, leave_ns; /* 0: it stays */
};

/* 100 us kernels, one process, busy, the usual share. */
void time_load_init(struct time_load *load);
/* One tenant's words; `ret_count` is how many there are to be of it. -EINVAL. */
must_check int time_load_parse(const char *text, struct time_load *ret_load, uint32_t *ret_count,
			       struct fault *why);
/* A time as core/share reads it: "100us", "5ms", "2s". -EINVAL. */
#define TIME_LOAD_MOST (100 * 86400 * 1000000000ull)
must_check int time_load_duration(const char *text, uint64_t *ret_ns);
