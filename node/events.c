/* SPDX-License-Identifier: Apache-2.0 */
#include "node/events.h"

#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "base/text.h"

/* Whose oldest event goes: that of the party with the most, by the vote of Boyer and Moore, if it
 * has more than half. */
static uint32_t place_to_go(const struct events *events)
{
	uint32_t votes = 0, count = 0, first = EVENTS_MOST;
	uint64_t party = 0;

	for (uint32_t i = 0; i < events->count; i++) {
		if (votes == 0)
			party = events->event[i]->party;
		if (events->event[i]->party == party)
			votes++;
		else
			votes--;
	}
	for (uint32_t i = events->count; i-- > 0;) {
		if (events->event[i]->party != party)
			continue;
		first = i;
		count++;
	}
	return count > events->count / 2 ? first : 0;
}

static void make_room(struct events *events)
{
	uint32_t at;

	if (events->count < EVENTS_MOST)
		return;
	at = place_to_go(events);
	free(events->event[at]);
	events->count--;
	memmove(&events->event[at], &events->event[at + 1],
		(events->count - at) * sizeof(events->event[0]));
}

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Without memory there is one event less: the log has it. */
static void add(struct daemon *d, const struct event *like, const char *name, const char *format,
		va_list arguments)
{
	struct events *events = &d->events;
	char said[WIRE_TEXT_MAX + 1];
	struct event *made;
	size_t size;

	if (d->stopping)
		return;
	if (!events->event)
		*events = (struct events){.event = calloc(EVENTS_MOST, sizeof(struct event *)),
					  .last = events->last};
	vsnprintf(said, sizeof(said), format, arguments);
	text_make_plain(said); /* which may be cut within a character */
	size = strlen(said) + 1;
	made = events->event ? malloc(sizeof(*made) + size + strlen(name) + 1) : NULL;
	if (!made)
		return;
	*made = *like;
	memcpy(made->said, said, size);
	strcpy(made->said + size, name);
	made->number = ++events->last;
	made->at_ns = clock_ns();
	make_room(events);
	events->event[events->count++] = made;
}

/* An owner's number has 32 bits. */
static uint64_t party_of(const struct tenant *t)
{
	while (t->outer)
		t = t->outer;
	return t->pods ? (uint64_t)t->id << 32 : t->owner;
}

static void begin(const struct tenant *t, uint32_t device, enum happened kind,
		  struct event *ret_like)
{
	*ret_like = (struct event){.kind = kind,
				   .tenant = t->id,
				   .device = device,
				   .owner = t->owner,
				   .party = party_of(t)};
}

/* Of meted, or of a device as such. */
static void begin_of_nobody(uint32_t device, enum happened kind, struct event *ret_like)
{
	*ret_like = (struct event){
		.kind = kind, .device = device, .owner = EVENTS_NONE, .party = EVENTS_NONE};
}

void events_tenant(const struct tenant *t, enum happened kind, const char *format, ...)
{
	struct event like;
	va_list arguments;

	begin(t, EVENTS_NONE, kind, &like);
	va_start(arguments, format);
	add(t->daemon, &like, t->name, format, arguments);
	va_end(arguments);
}

void events_at(const struct tenant_device *at, enum happened kind, const char *format, ...)
{
	struct event like;
	va_list arguments;

	begin(at->tenant, at->index, kind, &like);
	va_start(arguments, format);
	add(at->tenant->daemon, &like, at->tenant->name, format, arguments);
	va_end(arguments);
}

void events_device(struct daemon *d, uint32_t device, enum happened kind, const char *format, ...)
{
	struct event like;
	va_list arguments;

	begin_of_nobody(device, kind, &like);
	va_start(arguments, format);
	add(d, &like, "", format, arguments);
	va_end(arguments);
}

void events_meted(struct daemon *d, enum happened kind, const char *format, ...)
{
	struct event like;
	va_list arguments;

	begin_of_nobody(EVENTS_NONE, kind, &like);
	va_start(arguments, format);
	add(d, &like, "", format, arguments);
	va_end(arguments);
}

const struct event *events_after(const struct daemon *d, uint64_t number)
{
	const struct events *events = &d->events;
	uint32_t low = 0, high = events->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (events->event[middle]->number <= number)
			low = middle + 1;
		else
			high = middle;
	}
	return low < events->count ? events->event[low] : NULL;
}

const char *events_name(const struct event *event)
{
	return event->said + strlen(event->said) + 1;
}

void events_row(const struct event *event, struct wire_event_row *ret_row)
{
	ret_row->number = event->number;
	ret_row->at = event->at_ns;
	ret_row->kind = event->kind;
	ret_row->tenant = event->tenant;
	ret_row->device = event->device;
	ret_row->owner = event->owner;
	wire_set_text(&ret_row->name, events_name(event));
	wire_set_text(&ret_row->said, event->said);
}

void events_free(struct daemon *d)
{
	for (uint32_t i = 0; i < d->events.count; i++)
		free(d->events.event[i]);
	free(d->events.event);
	d->events = (struct events){0};
}
