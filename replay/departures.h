/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cluster with departures: the pods of a list arrive at random (Poisson), stay for a while and
 * leave. A pod that fits nowhere when it arrives is refused for good. After the warm-up, refusals
 * are counted by the size of the pod. Windows show what was allocated and stranded over time.
 *
 * The unit of time is the mean lifetime. The arrival rate is such that the pods would ask for
 * `load_milli` thousandths of all GPUs at a time, if none were refused. A run is a function of
 * trace and run: it is the same on every machine.
 */
#pragma once

#include "replay/cluster.h"

enum { DEPARTURES_SIZES = 6, DEPARTURES_WINDOWS = 100 };

struct departures_run {
	struct cluster_run how;
	uint32_t load_milli;
	double lifetimes, warm_up; /* warm_up < lifetimes */
	bool recorded;		   /* lifetimes are the recorded ones; otherwise exponential */
	bool stated;		   /* pods state when they leave */
	uint32_t windows;	   /* 1 .. DEPARTURES_WINDOWS, over the whole run */
};

/* Pods by size: without GPU, a part of a GPU, 1, 2, 3 to 4, more. */
struct departures_size {
	uint64_t pods, refused;
	uint64_t milli, refused_milli; /* of GPU */
};
const char *departures_size_name(int size);

struct departures_window {
	double allocated, stranded; /* percent of all GPUs: mean over the window; at its end */
	double refused;		    /* percent of the GPU milli that was asked for in the window */
};

struct departures_outcome {
	struct departures_size size[DEPARTURES_SIZES]; /* without the warm-up */
	struct departures_window window[DEPARTURES_WINDOWS];
	double refused;	  /* percent of the GPU milli that was asked for */
	double allocated; /* percent of all GPUs: the mean over time, without the warm-up */
};

/* -ENOMEM; -EINVAL: a pod that no machine could describe, pods that ask for no GPU, or a list
 * without lifetimes if recorded ones are requested. */
must_check int departures_replay(const struct replay_trace *trace, const struct departures_run *run,
				 struct departures_outcome *ret_outcome, struct fault *why);
