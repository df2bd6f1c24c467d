/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded pods that use GPUs: a table "t_s,pod,duty,memory_bytes", a row for each sample, where
 * duty is the percentage of the time in kernels from there to the pod's next sample.
 */
#pragma once

#include <stdio.h>

#include "base/fault.h"

struct pod_sample {
	uint64_t at_s, memory;
	uint32_t pod, duty_milli;
};

struct pod_samples {
	struct pod_sample *row; /* owned; by pod, then by time */
	size_t size;
};

/* At least one. -EINVAL: it is no such table; no more than 10^9 s and 2^50 bytes are accepted. */
must_check int pod_samples_read(FILE *file, const char *name, struct pod_samples *ret_samples,
				struct fault *why);
/* As csv_open() finds it. */
must_check int pod_samples_load(const char *path, struct pod_samples *ret_samples,
				struct fault *why);
void pod_samples_done(struct pod_samples *samples);
static inline void pod_samples_done_owned(struct pod_samples *samples)
{
	pod_samples_done(samples);
}
