/* SPDX-License-Identifier: Apache-2.0 */
/*                                                               sim/machine/engine.h
 * A device's engines in modelled time: one for kernels, which the contexts with work share in time
 * slices (2 ms) that go round among them (so that a process with two has twice the time; clients of
 * one MPS daemon run in one slice, at once: mps.h); one for
 * copies in each direction over the host link, whose rates drop by the duplex factor while both are
 * busy; one for copies within the device, one for copies between devices.
 *
 * No process holds an engine. Each process that asks computes, under the device's lock, what an
 * engine has done, so that a stopped or killed process stops no other. Within a context and an
 * engine work runs in the order in which it came; one process's kernels never overlap each other.
 *
 * Modelled and interpreted time. Work occupies its engine for its modelled time only. The caller
 * names the time from which its work could have run (ready_ns: when it was submitted, or when what
 * it waits for ended, in modelled time); if the engine was idle since then, that time is claimed
 * afterwards, so that neither interpretation nor the host's scheduler opens gaps. Work completes at
 * the later of its modelled end and now; the difference is its lateness, recorded per process and
 * per device. A stream whose next work starts at *ret_end_ns of the last sees exact times.
 *
 * Blocking calls wait at a futex. Thread-safe; needs segment_join().
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/macros.h"
#include "sim/machine/segment.h"

enum {
	ENGINE_LOST = 1,  /* the device has fallen off the bus */
	ENGINE_CANCELLED, /* engine_cancel() */
};

#define ENGINE_FOR_EVER UINT64_MAX

struct engine_ticket {
	int device;
	uint32_t context;
	uint64_t id; /* 0: not on the engine yet */
	uint64_t ready_ns, expected_ns;
	_Atomic uint32_t *cancel; /* borrowed, may be NULL: a word; not 0: stop waiting */
};

/*
 * A kernel of a context (a number of the process's) could start now; its interpretation begins.
 * expected_ns: its modelled time as far as it is known (such as the last launch's), so that it
 * takes part in the slices while it is interpreted; 0: not known, it takes part from
 * engine_kernel_end() on. Does not block (unless the engine's table is full).
 */
void engine_kernel_begin(int device, uint32_t context, uint64_t ready_ns, uint64_t expected_ns,
			 struct engine_ticket *ret_ticket);

/*
 * The kernel has been interpreted, and takes modelled_ns of the engine. Blocks until it has had
 * them. ENGINE_FOR_EVER for a kernel that hangs: returns when cancelled or lost only. ret_end_ns
 * and ret_lateness_ns may be NULL.
 */
must_check int engine_kernel_end(struct engine_ticket *ticket, uint64_t modelled_ns,
				 uint64_t *ret_end_ns, uint64_t *ret_lateness_ns);

/* A copy; blocks for its modelled time. `lane` is any but SEGMENT_COMPUTE. Copies go round among
 * processes, whatever their contexts. */
must_check int engine_copy(int device, enum segment_lane lane, uint64_t bytes, uint64_t ready_ns,
			   uint64_t *ret_end_ns);

/* Any other work on a lane, which takes this long at full speed: memsets at device rate. */
must_check int engine_work(int device, enum segment_lane lane, uint64_t modelled_ns,
			   uint64_t ready_ns, uint64_t *ret_end_ns);

/* Makes waiting threads read their `cancel` words again. */
void engine_cancel(int device);

/* Ground truth up to now: how long a lane has worked for a process (its slot's number). */
uint64_t engine_busy_ns(int device, uint32_t process, enum segment_lane lane);

/* The same for all processes, since the segment was made. */
uint64_t engine_device_busy_ns(int device, enum segment_lane lane);

/* Compute engine's part of the last whole sampling period (1/6 s), in percent; of one process, or
 * of all with UINT32_MAX. As NVML's utilisation. */
unsigned engine_utilisation(int device, uint32_t process);

struct engine_sample {
	uint64_t end_ns; /* of the period, on the clock */
	unsigned percent;
};

/* The compute engine's last whole periods that ended after since_ns, oldest first; as many as the
 * ring has (about 5 s) and `most` allows. */
size_t engine_samples(int device, uint32_t process, uint64_t since_ns, struct engine_sample *ret,
		      size_t most);

/* The lateness that `percentile` (0 to 100) of the completions did not exceed, rounded up by up to
 * a quarter; 0 if nothing completed. */
uint64_t engine_lateness_ns(const struct segment_lateness *lateness, unsigned percentile);

/* For how long in all work was ready before its engine knew of it, due to interpretation and to the
 * host. A shared engine does the work of others meanwhile: those slices are lost. */
uint64_t engine_missed_ns(const struct segment_lateness *lateness);
