/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How often something may be asked for, so that nobody who asks too often keeps others from it.
 * Everybody has a pace of his own, and all together have one. Who has not asked for long may have
 * the last of what all have; who has just asked must leave half of it.
 *
 * A host may speak for several (a server in front). It says for whom by a number, its part: each
 * part has a pace within the host's, by the same rule. A host that makes parts up takes from
 * itself.
 *
 * Pure: the time is given.
 */
#pragma once

#include <stdbool.h>

#include "http/http_door.h"

enum { HTTP_PACES = 64 }; /* whose pace is known at a time */

struct http_rate {
	uint32_t burst;	  /* at once */
	uint64_t each_ns; /* from then on one in such a time */
};

struct http_asker {
	struct http_host host;
	uint64_t part; /* 0: it speaks for itself */
};

/* When all of its burst can be had again. One for which that is over is as good as forgotten. */
struct http_pace {
	struct http_asker of;
	uint64_t full_ns;
};

struct http_paces {
	struct http_rate all, host, part;
	uint64_t full_ns; /* of all */
	struct http_pace pace[HTTP_PACES];
};

/* False: not now. Then nothing is taken from anybody. */
must_check bool http_paces_take(struct http_paces *paces, const struct http_asker *asker,
				uint64_t now_ns);
