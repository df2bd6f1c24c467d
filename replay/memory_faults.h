/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What mete is compared with: the same jobs on plain managed memory, which the driver moves by page
 * faults, and the hardware's time slices. No daemon, no turns, no store.
 *
 * The model: a job sweeps its set from one end to the other, again and again, `touch_gbps` while it
 * computes. A page that is not on the device takes page ÷ `fault_gbps` (what it drives out
 * included), and the device waits for it. The page that was touched longest ago leaves. A run is a
 * function of its setup.
 *
 * The two rates decide the result: if both sets are used in turn and do not fit together, a sweep
 * finds none of its pages, and all kernels take 1 + touch_gbps ÷ fault_gbps times as long.
 */
#pragma once

#include "replay/memory_world.h"

struct memory_faults {
	double touch_gbps, fault_gbps;
};

/* 28.9 and 3.7 GB/s. The latter is reported of dense sequential faults (gpu_ext, RTX 5090); the
 * former is chosen so that two jobs of 15.3 GB that keep a GPU of 16 GB busy for 90 % of their time
 * take 7.95 times as long as one after the other, as nvshare's thesis measured on a P100. */
void memory_faults_init(struct memory_faults *faults);

/* Runs the setup's jobs (loads without steps; shares are ignored) with its device and slices. In
 * the outcome came_bytes and left_bytes are what faults moved. -EINVAL: a load is recorded, a set
 * is empty, or the device is smaller than a page; -ENOMEM. */
must_check int memory_faults_run(const struct memory_setup *setup,
				 const struct memory_faults *faults,
				 struct memory_outcome *ret_outcome, struct fault *why);
