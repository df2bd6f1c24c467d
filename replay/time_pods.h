/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded pods on shared GPUs: of a table "t_s,pod,duty,memory_bytes" (a sample now and then of
 * each pod: how busy it kept its GPU, in hundredths, and what it held there), pods are drawn at
 * random onto GPUs, one, two, ... on each, and replayed: requests arrive at random, as many as made
 * the duty that was recorded.
 */
#pragma once

#include "replay/time_world.h"

struct time_pods_job {
	const char *path;
	uint64_t memory_bytes; /* of a GPU */
	uint64_t request_ns;   /* a request's kernels in all */
	uint64_t kernel_ns;
	uint32_t gpus;	    /* of each number of pods */
	uint32_t most;	    /* pods on a GPU */
	uint64_t length_ns; /* of each GPU's run, from a random moment of the record */
	uint64_t seed;
	FILE *progress; /* NULL: silent */
};

struct time_pods_row {
	uint32_t pods;
	double demand; /* of a GPU, hundredths */
	double fits;   /* of the draws: their memory is there, hundredths */
	double had;    /* of what was asked for, hundredths */
	/* The 99th percentile of a pod's requests, from arrival to completion: half of the pods,
	 * nine in ten, are below. */
	double half_ms, nine_ms, plain_half_ms, plain_nine_ms, alone_nine_ms;
};

void time_pods_init(struct time_pods_job *job);
/* Rows of 1, 2, 3, 4, 6, 8, 12, 16, ... pods; the caller frees *ret_rows. */
must_check int time_pods_run(const struct time_pods_job *job, struct time_pods_row **ret_rows,
			     size_t *ret_size, struct fault *why);
void time_pods_print(FILE *out, const struct time_pods_job *job, const struct time_pods_row *rows,
		     size_t size);
void time_pods_json(FILE *out, const struct time_pods_job *job, const struct time_pods_row *rows,
		    size_t size);
void time_pods_svg(FILE *out, const struct time_pods_row *rows, size_t size);
