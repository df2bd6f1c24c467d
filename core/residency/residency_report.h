/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a guest's report of its orders possible? It counts up within a generation of orders, and moves
 * no more than it was told, but for the rest of the last block. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* In this generation. */
struct residency_order {
	uint64_t leave, enter, drop;
};

struct residency_report {
	uint64_t left, copied, entered, returned, dropped, failed;
};

/* What it has, according to the daemon's books, before this report. */
struct residency_has {
	uint64_t here_bytes, out_bytes;
	uint64_t given_bytes; /* parts of the store that it returned, and has not reported yet */
	bool foreign; /* some of it may be in a former daemon's store: that is returned without a
			 word */
	uint64_t chunk_bytes; /* the largest block */
};

enum residency_doubt {
	RESIDENCY_BELIEVED,
	RESIDENCY_TOOK_BACK, /* what it said before */
	RESIDENCY_LEFT_MORE, /* than it was told */
	RESIDENCY_CAME_MORE, /* likewise */
	RESIDENCY_GAVE_MORE, /* likewise, of the store */
	RESIDENCY_GAVE_LESS, /* than it says */
};

enum residency_doubt residency_doubt(const struct residency_order *told,
				     const struct residency_report *before,
				     const struct residency_report *said,
				     const struct residency_has *has);
