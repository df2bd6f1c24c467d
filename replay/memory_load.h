/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant of `mete replay --memory` and its notation: words like "name=a", "weight=200" and the
 * other fields of a share that concern time; "set=15.3G" (its memory); "load=job:300s:10s:10s" (300
 * s of kernels in bursts of 10 s, with a pause of 10 s after each; then it ends); "kernel=1ms";
 * "clean=80%" (the part of its memory that does not change while it runs); "join=10s"; and "8x" in
 * front for eight such tenants.
 */
#pragma once

#include "base/fault.h"
#include "core/turns/turns.h"

/* A step of a recorded load: the work that arrives in it, and the memory that the
 * tenant has from then on. */
struct memory_step {
	uint64_t at_ns, bytes;
	uint64_t work_ns; /* until the next step, as evenly spaced requests */
};

struct memory_load {
	char name[32];
	struct turns_share share;
	uint64_t set_bytes;
	uint64_t work_ns, burst_ns, pause_ns; /* of a job */
	uint64_t kernel_ns, join_ns;
	uint32_t clean_milli;
	const struct memory_step *steps; /* borrowed; NULL: a job */
	size_t steps_size;
	uint64_t request_ns; /* the length of a recorded load's requests, at most */
};

/* Sets a job of 60 s of 1 ms kernels without a pause, 1 GiB, and the default share. */
void memory_load_init(struct memory_load *load);
/* Parses one tenant's words; *ret_count is how many such tenants there are. -EINVAL. */
must_check int memory_load_parse(const char *text, struct memory_load *ret_load,
				 uint32_t *ret_count, struct fault *why);
/* Parses an amount like core/share does ("15.3G", "64MiB"), but also 0. */
must_check int memory_load_bytes(const char *text, uint64_t *ret_bytes);
