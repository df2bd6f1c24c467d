/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recorded pods on GPUs whose memory is too small for all of them. Of a table
 * "t_s,pod,duty,memory_bytes" it takes the pods that used a GPU and held memory, and puts `each` of
 * them on a GPU, the busiest first, onto the GPU with the least work. A pod's work between two
 * samples arrives as requests; it holds the memory that it held in the record.
 */
#pragma once

#include "replay/memory_world.h"

struct memory_pods_job {
	const char *path;
	struct memory_setup setup;
	uint32_t each;	     /* pods per GPU */
	uint64_t request_ns; /* the length of a request, at most */
	FILE *progress;	     /* NULL: silent */
};

struct memory_pods_sums {
	uint32_t pods, gpus;
	double asked_percent;	 /* of the time of all GPUs */
	double deferred_percent; /* of what was asked for: done a sample
				  * later than it would be alone */
	double collides_percent; /* of what was asked for: beyond a GPU's time in that minute,
				  * so no policy could do it */
	double longest_wait_s;
	uint64_t refused, handovers, moved_bytes;
	double most_held; /* at one time, by the pods of one GPU, as a part of its memory */
	double resident_s, events;
};

void memory_pods_init(struct memory_pods_job *job);
/* A GPU of 80 GB on a link of 26 GB/s in one direction, or 18.6 GB/s in each if both are busy (PCIe
 * 4), and 160 GB of host memory for each GPU. */
void memory_pods_setup(struct memory_setup *setup);
must_check int memory_pods_run(const struct memory_pods_job *job, struct memory_pods_sums *ret_sums,
			       struct fault *why);
void memory_pods_print(FILE *out, const struct memory_pods_job *job,
		       const struct memory_pods_sums *sums);
void memory_pods_json(FILE *out, const struct memory_pods_job *job,
		      const struct memory_pods_sums *sums);
