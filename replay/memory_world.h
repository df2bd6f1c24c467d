/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device, its host, and tenants that together hold more memory than the device has, on a virtual
 * clock. core/residency runs on core/turns, as in meted. With `plain` there are only the hardware's
 * time slices, and all memory fits.
 *
 * The model: kernels, slices and messages are as in replay/time_world.h. To evict, a guest copies a
 * chunk out, and unmaps it while the next one is copied. To restore, it maps a chunk and then
 * copies it in. Each copy waits for the link. The store is pinned and cleared in advance, from a
 * tenant's first allocation on; an eviction waits for the part that is not ready. A run is a
 * function of its setup.
 */
#pragma once

#include "core/residency/residency.h"
#include "replay/memory_load.h"
#include "replay/time_world.h"

struct memory_setup {
	const struct memory_load *loads;
	uint32_t tenants;
	struct turns_tuning turns;
	struct residency_tuning residency;
	uint64_t device_bytes, store_bytes;
	double alone_gbps, both_gbps; /* of the link, in each direction: if one is busy, or both */
	/* To map a chunk: while the device copies nothing, or something out; and to unmap it. */
	uint64_t map_ns, map_beside_ns, unmap_ns;
	double pin_gbps, clear_gbps;  /* to prepare the store */
	uint64_t delay_ns;	      /* of a message between guest and daemon */
	uint64_t slice_ns, flight_ns; /* see replay/time_world.h */
	uint64_t length_ns;	      /* the run ends then, or earlier with the last job */
	bool plain;
};

/* A GPU of 16 GB on a link of 12 GB/s in each direction, and 64 GB of store. Of a
 * chunk of 64 MiB, as measured on an H100: 34 us to map it, 967 us beside copies, 44 us to unmap
 * it. A message takes 30 us; memory is pinned at 6 GB/s and cleared at 8
 * GB/s. The run ends after a day. */
void memory_setup_init(struct memory_setup *setup);

struct memory_span { /* a handover */
	uint64_t began_ns, took_ns, left_bytes, came_bytes;
};

struct memory_tenant {
	uint64_t ended_ns; /* when its job ended; 0: it did not */
	uint64_t served_ns, asked_ns;
	uint64_t left_bytes, came_bytes, copied_bytes;
	uint64_t longest_ns;  /* that work waited for the gate */
	uint64_t deferred_ns; /* of a recorded load: done a step later than when alone */
	uint64_t refused;
	struct time_series waits;
};

struct memory_outcome {
	struct memory_tenant *tenants;
	struct memory_span *spans;
	size_t spans_size, spans_room;
	uint64_t ended_ns; /* when the last job ended */
	uint64_t left_bytes, came_bytes, copied_bytes, sets, events;
	uint64_t resident_most, store_most;
};

must_check int memory_world_run(const struct memory_setup *setup,
				struct memory_outcome *ret_outcome, struct fault *why);
void memory_outcome_done(struct memory_outcome *outcome, uint32_t tenants);
/* Efficiency of all handovers that moved memory in both directions, in thousandths: bytes moved /
 * bytes that the link could have moved both ways in the same time. */
uint32_t memory_outcome_efficiency(const struct memory_outcome *outcome,
				   const struct memory_setup *setup);
