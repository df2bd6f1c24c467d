/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded pods that use GPUs: a table "t_s,pod,duty,memory_bytes" with a row for each sample.
 * `duty` is the percentage of time in kernels from this sample to the pod's next one.
 */
#pragma once

#include <stdio.h>

#include "base/fault.h"

struct pod_sample {
	uint64_t at_s, memory;
	uint32_t pod, duty_milli;
};

struct pod_samples {
	struct pod_sample *row; /* owned; sorted by pod, then by time */
	size_t size;
};

/* Reads at least one row. -EINVAL: not such a table; more than 10^9 s or 2^50 bytes are refused. */
must_check int pod_samples_read(FILE *file, const char *name, struct pod_samples *ret_samples,
				struct fault *why);
/* Opens the table by csv_open(). */
must_check int pod_samples_load(const char *path, struct pod_samples *ret_samples,
				struct fault *why);
void pod_samples_done(struct pod_samples *samples);
static inline void pod_samples_done_owned(struct pod_samples *samples)
{
	pod_samples_done(samples);
}
