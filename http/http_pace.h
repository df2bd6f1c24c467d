/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits how often something may be requested, so that a client that asks too often does not keep
 * others from it. Each client has a pace of its own, and all together have one. A client that has
 * not asked for long may take the last of the common burst; one that has just asked must leave half
 * of it.
 *
 * A host may ask on behalf of several (a server in front). It tells them apart by a number, the
 * part: each part has a pace within the host's, by the same rule. A host that makes parts up only
 * takes from itself.
 *
 * Pure: the time is given.
 */
#pragma once

#include <stdbool.h>

#include "http/http_door.h"

enum { HTTP_PACES = 64 }; /* how many paces are known at a time */

struct http_rate {
	uint32_t burst;	  /* at once */
	uint64_t each_ns; /* afterwards one in this time */
};

struct http_asker {
	struct http_host host;
	uint64_t part; /* 0: the host itself */
};

/* When the whole burst is available again. A pace whose time has passed may be forgotten. */
struct http_pace {
	struct http_asker of;
	uint64_t full_ns;
};

struct http_paces {
	struct http_rate all, host, part;
	uint64_t full_ns; /* of all */
	struct http_pace pace[HTTP_PACES];
};

/* False: not now, and nothing is taken. */
must_check bool http_paces_take(struct http_paces *paces, const struct http_asker *asker,
				uint64_t now_ns);
