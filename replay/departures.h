/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cluster that lives: pods of a list arrive at random (Poisson), stay for a while and leave.
 * Who fits nowhere on arrival is refused for good. What was refused is counted by the size of pods
 * once the cluster has warmed up; windows show what was allocated and stranded over time.
 *
 * Times are in mean lifetimes. Arrivals are as many as make the pods ask for `load_milli`
 * thousandths of all GPUs at a time, if none were refused. A run is a function of trace and run:
 * the same on every machine.
 */
#pragma once

#include "replay/cluster.h"

enum { DEPARTURES_SIZES = 6, DEPARTURES_WINDOWS = 100 };

struct departures_run {
	struct cluster_run how;
	uint32_t load_milli;
	double lifetimes, warm_up; /* warm_up < lifetimes */
	bool recorded;		   /* each pod's lifetime is the list's; else exponential */
	bool stated;		   /* pods say when they leave */
	uint32_t windows;	   /* 1 .. DEPARTURES_WINDOWS, of the whole run */
};

/* Pods by size: CPU only, a part of a GPU, 1, 2, 3 to 4, more. */
struct departures_size {
	uint64_t pods, refused;
	uint64_t milli, refused_milli; /* of GPU */
};
const char *departures_size_name(int size);

struct departures_window {
	double allocated, stranded; /* percent of all GPUs: mean over the window, at its end */
	double refused;		    /* percent of the GPU milli asked for within it */
};

struct departures_outcome {
	struct departures_size size[DEPARTURES_SIZES]; /* without the warm-up */
	struct departures_window window[DEPARTURES_WINDOWS];
	double refused;	  /* percent of the GPU milli asked for */
	double allocated; /* percent of all GPUs, mean over time without the warm-up */
};

/* -ENOMEM, -EINVAL: a pod that no machine could describe; pods that ask for no GPU; a list
 * without lifetimes where they are to be the recorded ones. */
must_check int departures_replay(const struct replay_trace *trace, const struct departures_run *run,
				 struct departures_outcome *ret_outcome, struct fault *why);
