/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums nanoseconds over the last second and the last minute, in two rings of buckets. The cost of
 * adding is the number of buckets crossed, at most the size of the rings. A bucket counts in
 * 62,500ths of its width (1 us, 16 us) and at most 65,535 of them: nobody is charged more than the
 * time that passes. A smaller rest is carried over to the next bucket.
 */
#pragma once

#include <stdint.h>

enum {
	TURNS_RATE_SLOTS = 17,	 /* of 62.5 ms: the last 16 that are over, and the one that runs */
	TURNS_RATE_SECONDS = 61, /* likewise */
};

#define TURNS_RATE_SLOT_NS   62500000ull
#define TURNS_RATE_SECOND_NS 1000000000ull

/* All zero: nothing yet. */
struct turns_rate {
	uint64_t slot, second;		 /* that run */
	uint32_t slot_rest, second_rest; /* ns */
	uint16_t slots[TURNS_RATE_SLOTS], seconds[TURNS_RATE_SECONDS];
};

/* Of a seat. */
struct turns_rates {
	struct turns_rate charged, entitled;
};

/* `amount` ns, spread evenly over from_ns .. to_ns. */
void turns_rate_add(struct turns_rate *rate, uint64_t from_ns, uint64_t to_ns, uint64_t amount);

/* The sums over the last 16 slots, or 60 seconds, that had ended at now_ns. */
uint64_t turns_rate_1s(const struct turns_rate *rate, uint64_t now_ns);
uint64_t turns_rate_60s(const struct turns_rate *rate, uint64_t now_ns);
