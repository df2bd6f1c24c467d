/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts that were answered before, and are served when strangers ask for more than there is: by
 * http/http_pace.h many addresses together can use up what all may have, and nobody can tell a
 * newcomer from one of them. Each of these hosts has a pace of its own that nobody else can take
 * from.
 *
 * Whoever is there keeps its place for as long as it is answered now and then. So those who come
 * from many addresses during an attack, and are answered, displace nobody.
 *
 * Pure: the time is given.
 */
#pragma once

#include <stdbool.h>

#include "http/http_door.h"

enum {
	HTTP_REGULARS = 32,
	HTTP_REGULAR_BURST = 8,	  /* at once, and from then on one in a second */
	HTTP_REGULAR_S = 60 * 60, /* after so long without an answer it is a stranger again */
};

struct http_regulars {
	struct http_regular {
		struct http_host host;
		uint64_t answered_ns; /* 0: a free place */
		uint64_t full_ns;     /* when all of its burst can be had again */
	} regular[HTTP_REGULARS];
};

/* It was shown what only the entitled see. Not noted where all places are taken. */
void http_regulars_note(struct http_regulars *regulars, const struct http_host *host,
			uint64_t now_ns);
/* False: it is a stranger, or asks too often. */
must_check bool http_regulars_take(struct http_regulars *regulars, const struct http_host *host,
				   uint64_t now_ns);
