/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded pods on shared GPUs. A table "t_s,pod,duty,memory_bytes" has samples of each pod: how
 * busy it kept its GPU, in hundredths, and what it held. Pods are drawn at random onto GPUs, 1, 2,
 * ... on each, and replayed: requests arrive at random times, at the rate that gives the recorded
 * duty.
 */
#pragma once

#include "replay/time_world.h"

struct time_pods_job {
	const char *path;
	uint64_t memory_bytes; /* of a GPU */
	uint64_t request_ns;   /* the kernels of a request, in total */
	uint64_t kernel_ns;
	uint32_t gpus;	    /* for each number of pods */
	uint32_t most;	    /* pods per GPU, at most */
	uint64_t length_ns; /* of each GPU's run, from a random time of the record on */
	uint64_t seed;
	FILE *progress; /* NULL: silent */
};

struct time_pods_row {
	uint32_t pods;
	double demand; /* of a GPU's time, in percent */
	double fits;   /* draws whose pods fit into the GPU's memory, in percent */
	double had;    /* of what was asked for, in percent */
	/* Of the pods' 99th percentiles (of a pod's requests, from arrival to completion) the
	 * median and the 90th percentile. */
	double half_ms, nine_ms, plain_half_ms, plain_nine_ms, alone_nine_ms;
};

void time_pods_init(struct time_pods_job *job);
/* Makes rows for 1, 2, 3, 4, 6, 8, 12, 16, ... pods; the caller frees *ret_rows. */
must_check int time_pods_run(const struct time_pods_job *job, struct time_pods_row **ret_rows,
			     size_t *ret_size, struct fault *why);
void time_pods_print(FILE *out, const struct time_pods_job *job, const struct time_pods_row *rows,
		     size_t size);
void time_pods_json(FILE *out, const struct time_pods_job *job, const struct time_pods_row *rows,
		    size_t size);
void time_pods_svg(FILE *out, const struct time_pods_row *rows, size_t size);
