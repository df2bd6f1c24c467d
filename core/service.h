/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is served when, of many who want one thing after the other, some of them without an end.
 * Pure: the caller does the things, and says what each took, in a unit of its own.
 *
 *	prompt   a member who now and then has nothing to say. Of these the one is next who was
 *		 given least (core/line.h).
 *	late     who had SERVICE_ROW things done in a row and had more to say after each: it floods.
 *		 The caller serves the late from a small part of its time, which they share as
 *		 fairly. Who has nothing more to say is prompt again, and owes nobody anything.
 *
 * Laws, attacked by tests/unit/test_service.c:
 *  1. who stops before it has had SERVICE_ROW things done in a row is never late;
 *  2. who does not stop is late after SERVICE_ROW things, and is no longer among the prompt;
 *  3. who wants something stands in exactly one of both lines until it is served;
 *  4. what serving took is charged in full, whatever the member wants meanwhile.
 */
#pragma once

#include <stdbool.h>

#include "core/line.h"

enum { SERVICE_ROW = 16 };

enum service_change { SERVICE_SAME, SERVICE_BECAME_LATE, SERVICE_BECAME_PROMPT };

struct service_member {
	struct line_member place;
	bool late, served; /* served: from service_next() to service_done() */
	uint32_t row;	   /* things done since it had nothing to say */
};

/* All zero but for the lines' memory and the grace of `prompt`. */
struct service {
	struct line prompt, late;
};

/* Harmless if it is known, or is being served: service_done() says then what it wants. */
void service_want(struct service *service, struct service_member *member);

/* It wants nothing any more, and may go away. */
void service_leave(struct service *service, struct service_member *member);

/* Who is served now, of the prompt or of the late; NULL: nobody. service_done() follows. */
struct service_member *service_next(struct service *service, bool late);

/* One thing was done, which took `cost`; `more`: it wants more. */
enum service_change service_done(struct service *service, struct service_member *member,
				 uint64_t cost, bool more);
