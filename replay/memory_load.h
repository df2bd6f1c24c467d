/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tenant of `mete replay --memory` is like, and how it is written: words as "name=a",
 * "weight=200" and the other fields of a share that concern time, "set=15.3G" (its memory),
 * "load=job:300s:10s:10s" (300 s of kernels, in bursts of 10 s, and 10 s of something else after
 * each; it ends then), "kernel=1ms", "clean=80%" (so much of its memory does not change while it
 * runs), "join=10s"; and "8x" in front: eight of these.
 */
#pragma once

#include "base/fault.h"
#include "core/turns.h"

/* A moment of a recorded load: what arrives there, and what memory it has from there on. */
struct memory_step {
	uint64_t at_ns, bytes;
	uint64_t work_ns; /* until the next step, evenly, as requests */
};

struct memory_load {
	char name[32];
	struct turns_share share;
	uint64_t set_bytes;
	uint64_t work_ns, burst_ns, pause_ns; /* a job */
	uint64_t kernel_ns, join_ns;
	uint32_t clean_milli;
	const struct memory_step *steps; /* borrowed; NULL: a job */
	size_t steps_size;
	uint64_t request_ns; /* of a recorded load, at most */
};

/* 1 ms kernels, 1 GiB, 60 s of kernels without a pause, the usual share. */
void memory_load_init(struct memory_load *load);
/* One tenant's words; `ret_count` is how many there are to be of it. -EINVAL. */
must_check int memory_load_parse(const char *text, struct memory_load *ret_load,
				 uint32_t *ret_count, struct fault *why);
/* An amount as core/share reads it: "15.3G", "64MiB"; 0, too. */
must_check int memory_load_bytes(const char *text, uint64_t *ret_bytes);
