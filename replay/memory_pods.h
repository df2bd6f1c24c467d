/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded pods that share GPUs whose memory is too small for all of them: of a table
 * "t_s,pod,duty,memory_bytes" those that used a GPU and held memory are put onto GPUs, so many on
 * each, the busiest first onto the GPU that is asked for least; what each did from sample to sample
 * arrives as requests, and what it held it holds.
 */
#pragma once

#include "replay/memory_world.h"

struct memory_pods_job {
	const char *path;
	struct memory_setup setup;
	uint32_t each;	     /* pods on a GPU */
	uint64_t request_ns; /* a request is no longer */
	FILE *progress;	     /* NULL: silent */
};

struct memory_pods_sums {
	uint32_t pods, gpus;
	double asked_percent;	 /* of all GPUs' time */
	double deferred_percent; /* of what was asked for: done a sample later than alone */
	double collides_percent; /* what a sample asked of a GPU beyond its time: no policy helps */
	double longest_wait_s;
	uint64_t refused, handovers, moved_bytes;
	double most_held; /* of a GPU's memory, by its pods, at a time */
	double resident_s, events;
};

void memory_pods_init(struct memory_pods_job *job);
/* A GPU of 80 GB on a link of 26 GB/s one way, 18.6 each where both are busy (PCIe 4), and 160 GB
 * of the host's memory for each GPU. */
void memory_pods_setup(struct memory_setup *setup);
must_check int memory_pods_run(const struct memory_pods_job *job, struct memory_pods_sums *ret_sums,
			       struct fault *why);
void memory_pods_print(FILE *out, const struct memory_pods_job *job,
		       const struct memory_pods_sums *sums);
void memory_pods_json(FILE *out, const struct memory_pods_job *job,
		      const struct memory_pods_sums *sums);
