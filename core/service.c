/* SPDX-License-Identifier: Apache-2.0 */
#include "core/service.h"

#include "base/macros.h"

static struct line *line_of(struct service *service, const struct service_member *member)
{
	return member->late ? &service->late : &service->prompt;
}

void service_want(struct service *service, struct service_member *member)
{
	if (!member->served)
		line_add(line_of(service, member), &member->place);
}

void service_leave(struct service *service, struct service_member *member)
{
	line_remove(line_of(service, member), &member->place);
}

struct service_member *service_next(struct service *service, bool late)
{
	struct line_member *next = line_next(late ? &service->late : &service->prompt);
	struct service_member *member;

	if (!next)
		return NULL;
	member = container_of(next, struct service_member, place);
	member->served = true;
	return member;
}

static enum service_change stop(struct service *service, struct service_member *member,
				uint64_t cost)
{
	bool was_late = member->late;

	member->row = 0;
	member->late = false;
	if (!was_late) {
		line_charge(&member->place, cost);
		return SERVICE_SAME;
	}
	/* Its time while late came from the late members' part. */
	member->place.charged = service->prompt.clock;
	return SERVICE_BECAME_PROMPT;
}

enum service_change service_done(struct service *service, struct service_member *member,
				 uint64_t cost, bool more)
{
	member->served = false;
	if (!more)
		return stop(service, member, cost);
	if (member->late || ++member->row < SERVICE_ROW) {
		line_again(line_of(service, member), &member->place, cost);
		return SERVICE_SAME;
	}
	member->row = 0;
	member->late = true;
	member->place.charged = service->late.clock;
	line_again(&service->late, &member->place, cost);
	return SERVICE_BECAME_LATE;
}
