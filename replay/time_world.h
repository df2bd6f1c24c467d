/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device and its tenants on a virtual clock, with core/turns as meted runs it, or without turns:
 * then, as on an open device, the hardware's slices go round among the processes.
 *
 * What is modelled: kernels run one after the other and are not interrupted but by a slice's end; a
 * guest keeps a bounded time of work in flight; every word between guest and daemon takes its time.
 * A run is a function of its setup, seed included.
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
	const struct time_change *changes; /* in the order of time */
	uint32_t changes_size;
	const struct turns_tuning *tuning;
	uint64_t length_ns, sample_ns;
	uint64_t delay_ns;  /* of a word between guest and daemon */
	uint64_t slice_ns;  /* of the hardware */
	uint64_t flight_ns; /* of a tenant's work in flight at most, but for a kernel of each
			       process */
	uint64_t seed;
	bool plain; /* no turns */
};

/* The usual: 60 s, samples of 10 ms, 30 us, 2 ms, 2 ms, seed 1. */
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
	uint64_t gaps_ns, harvested_ns; /* of pauses above 10 ms, and what others ran in them */
	uint64_t events;
};

must_check int time_world_run(const struct time_setup *setup, struct time_outcome *ret_outcome,
			      struct fault *why);
void time_outcome_done(struct time_outcome *outcome, uint32_t tenants);

/* The value below which so many thousandths are; sorts. 0 of nothing. */
uint64_t time_series_part(struct time_series *series, uint32_t milli);
