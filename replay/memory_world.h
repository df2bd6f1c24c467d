/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device, its host and tenants that together hold more than the device, on a virtual clock: with
 * core/residency on core/turns as meted runs them; or `plain`, the hardware's slices, where all
 * fits.
 *
 * What is modelled: kernels, slices and words as in replay/time_world.h; a guest that evicts copies
 * a chunk out, then unmaps it while the next is copied; one that restores maps a chunk, then copies
 * it in; each copy waits for the link; the store is pinned and cleared ahead of need, from when a
 * tenant allocates on, and an eviction waits for what is not yet. A run is a function of its setup.
 */
#pragma once

#include "core/residency.h"
#include "replay/memory_load.h"
#include "replay/time_world.h"

struct memory_setup {
	const struct memory_load *loads;
	uint32_t tenants;
	struct turns_tuning turns;
	struct residency_tuning residency;
	uint64_t device_bytes, store_bytes;
	double alone_gbps, both_gbps; /* of the link, each way: one way busy, both */
	uint64_t vmm_ns;	      /* to map, or unmap, a chunk */
	double pin_gbps, clear_gbps;  /* to prepare the store */
	uint64_t delay_ns;	      /* of a word between guest and daemon */
	uint64_t slice_ns, flight_ns; /* see replay/time_world.h */
	uint64_t length_ns;	      /* it ends then, if not all jobs have ended before */
	bool plain;
};

/* A GPU of 16 GB on a link of 12 GB/s each way, 64 GB of store, 20 us to map a chunk of 64 MiB, 6
 * GB/s to pin, 8 GB/s to clear, 30 us for a word; a day. */
void memory_setup_init(struct memory_setup *setup);

struct memory_span { /* a handover */
	uint64_t began_ns, took_ns, left_bytes, came_bytes;
};

struct memory_tenant {
	uint64_t ended_ns; /* its job; 0: not */
	uint64_t served_ns, asked_ns;
	uint64_t left_bytes, came_bytes, copied_bytes;
	uint64_t longest_ns;  /* work waited for its gate */
	uint64_t deferred_ns; /* of a recorded load: done a step later than alone */
	uint64_t refused;
	struct time_series waits;
};

struct memory_outcome {
	struct memory_tenant *tenants;
	struct memory_span *spans;
	size_t spans_size, spans_room;
	uint64_t ended_ns; /* all jobs */
	uint64_t left_bytes, came_bytes, copied_bytes, sets, events;
	uint64_t resident_most, store_most;
};

must_check int memory_world_run(const struct memory_setup *setup,
				struct memory_outcome *ret_outcome, struct fault *why);
void memory_outcome_done(struct memory_outcome *outcome, uint32_t tenants);
/* Bytes moved by what the link could have moved both ways in the time, of all handovers,
 * thousandths. */
uint32_t memory_outcome_efficiency(const struct memory_outcome *outcome,
				   const struct memory_setup *setup);
