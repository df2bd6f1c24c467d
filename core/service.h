/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which of many members is served next, if they make one request after another, some of
 * them endlessly. Pure: the caller serves the requests and reports what each took, in its own unit.
 *
 *	prompt   a member that has no request from time to time. Among these, the one that was given
 *		 least is next (core/line.h).
 *	late     a member that made SERVICE_ROW requests in a row without a pause: it floods. The
 *		 caller serves late members in a small part of its time, which they share just as
 *		 fairly. A late member that has no more requests is prompt again and owes nothing.
 *
 * Laws, tested by tests/unit/test_service.c:
 *  1. a member that stops before SERVICE_ROW requests in a row is never late;
 *  2. a member that does not stop is late after SERVICE_ROW requests, and is no longer prompt;
 *  3. a member with a request is in exactly one of the two lines until it is served;
 *  4. the cost of each service is charged in full, whatever the member requests meanwhile.
 */
#pragma once

#include <stdbool.h>

#include "core/line.h"

enum { SERVICE_ROW = 16 };

enum service_change { SERVICE_SAME, SERVICE_BECAME_LATE, SERVICE_BECAME_PROMPT };

struct service_member {
	struct line_member place;
	bool late, served; /* served: from service_next() to service_done() */
	uint32_t row;	   /* requests served since it last had none */
};

/* All zero except the lines' memory and the grace of `prompt`. */
struct service {
	struct line prompt, late;
};

/* Harmless if it is known or is being served; in the latter case service_done() reports what it
 * wants. */
void service_want(struct service *service, struct service_member *member);

/* The member has no more requests and may go away. */
void service_leave(struct service *service, struct service_member *member);

/* The member to serve now, prompt or late; NULL: none. service_done() must follow. */
struct service_member *service_next(struct service *service, bool late);

/* One request was served at this `cost`; `more`: the member has another one. */
enum service_change service_done(struct service *service, struct service_member *member,
				 uint64_t cost, bool more);
