/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device and its tenants on a virtual clock: with core/turns, as in meted; or, as on an open
 * device, with only the hardware's time slices, round robin among the processes.
 *
 * The model: kernels run one after the other, and only the end of a slice interrupts them. A guest
 * keeps a bounded amount of work in flight. Each message between guest and daemon has a delay. A
 * run is a function of its setup, including the seed.
 */
#pragma once

#include "replay/time_load.h"

struct time_change {
	uint64_t at_ns;
	uint32_t tenant;
	struct turns_share share;
};

struct time_setup {
	const struct time_load *loads;
	uint32_t tenants;
	const struct time_change *changes; /* sorted by time */
	uint32_t changes_size;
	const struct turns_tuning *tuning;
	uint64_t length_ns, sample_ns;
	uint64_t delay_ns;  /* of a message between guest and daemon */
	uint64_t slice_ns;  /* of the hardware */
	uint64_t flight_ns; /* a tenant's work in flight, at most; but at least
			     * a kernel of each process */
	uint64_t seed;
	bool plain; /* no turns */
};

/* Defaults: 60 s, samples of 10 ms, a delay of 30 us, slices of 2 ms, 2 ms in flight, seed 1. */
void time_setup_init(struct time_setup *setup);

struct time_series {
	uint64_t *values;
	size_t size, room;
};

struct time_outcome {
	uint64_t *charged, *served; /* at the end of each sample, [sample * tenants + tenant] */
	uint64_t *entitled;
	size_t samples;
	struct time_series *waits; /* of each tenant's requests, from arrival to completion, ns */
	struct time_series handovers;	/* from a last completion to another's first kernel, ns */
	uint64_t *turns, *longest_ns;	/* of each tenant */
	uint64_t gaps_ns, harvested_ns; /* of pauses above 10 ms, and of what others ran in them */
	uint64_t events;
};

must_check int time_world_run(const struct time_setup *setup, struct time_outcome *ret_outcome,
			      struct fault *why);
void time_outcome_done(struct time_outcome *outcome, uint32_t tenants);

/* Returns the value below which `milli` thousandths of the values are; 0 if there
 * are none. Sorts the series. */
uint64_t time_series_part(struct time_series *series, uint32_t milli);
