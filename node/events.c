/* SPDX-License-Identifier: Apache-2.0 */
#include "node/events.h"

#include <stdarg.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/text.h"
#include "node/upcalls.h"

/* We never get there; no number would be higher, nor could a browser tell them apart. */
static const uint64_t number_most = 1ull << 53;

static void make_room(struct events *events, const struct fair_part *comes)
{
	struct fair_part part[EVENTS_MOST];
	uint32_t at;

	if (events->count < EVENTS_MOST)
		return;
	for (uint32_t i = 0; i < events->count; i++)
		part[i] = events->event[i]->whose;
	at = fair_goes(part, events->count, comes);
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

/* The event, which is the last one now. NULL without memory: there is one event less, and the log
 * has it. */
static const struct event *keep(struct events *events, const struct event *like, const char *said)
{
	size_t size = strlen(said) + 1;
	struct event *made;

	if (!events->event) {
		events->event = calloc(EVENTS_MOST, sizeof(struct event *));
		events->count = 0;
	}
	made = events->event ? malloc(sizeof(*made) + size + strlen(like->name) + 1) : NULL;
	if (!made)
		return NULL;
	*made = *like;
	memcpy(made->said, said, size);
	made->name = strcpy(made->said + size, like->name);
	make_room(events, &made->whose);
	events->event[events->count++] = made;
	events->last = made->number;
	return made;
}

static void add(struct daemon *d, struct event *like, const char *format, va_list arguments)
{
	char said[WIRE_TEXT_MAX + 1];
	const struct event *made;

	if (d->stopping)
		return;
	vsnprintf(said, sizeof(said), format, arguments);
	text_make_plain(said); /* which may be cut within a character */
	like->number = d->events.last + 1;
	like->at_ns = clock_ns();
	made = keep(&d->events, like, said);
	if (!made)
		return;
	events_file_add(d, made);
	if (d->events.awaited)
		admin_events_happened(d);
}

void events_bring_back(struct daemon *d, const struct event *like, const char *said)
{
	if (like->number > d->events.last && like->number < number_most &&
	    keep(&d->events, like, said) && like->tenant > d->tenants.last_id)
		d->tenants.last_id = like->tenant; /* so that a number means one tenant */
}

/* The name of a pod's tenant begins with its namespace. The highest bit tells that from a user's
 * number. */
static struct fair_part whose(const struct tenant *t)
{
	struct fair_part part;

	while (t->outer)
		t = t->outer;
	part.tenant = t->id;
	part.user = t->owner;
	if (t->pods)
		part.user = hash_bytes(HASH_BEGIN, t->name, strcspn(t->name, "/")) | 1ull << 63;
	return part;
}

static void begin(const struct tenant *t, uint32_t device, enum happened kind,
		  struct event *ret_like)
{
	*ret_like = (struct event){.kind = kind,
				   .tenant = t->id,
				   .device = device,
				   .owner = t->owner,
				   .whose = whose(t),
				   .name = t->name};
}

/* Of meted, or of a device as such. */
static void begin_of_nobody(uint32_t device, enum happened kind, struct event *ret_like)
{
	*ret_like = (struct event){.kind = kind,
				   .device = device,
				   .owner = EVENTS_NONE,
				   .whose = {.user = EVENTS_NONE},
				   .name = ""};
}

void events_tenant(const struct tenant *t, enum happened kind, const char *format, ...)
{
	struct event like;
	va_list arguments;

	begin(t, EVENTS_NONE, kind, &like);
	va_start(arguments, format);
	add(t->daemon, &like, format, arguments);
	va_end(arguments);
}

void events_at(const struct tenant_device *at, enum happened kind, const char *format, ...)
{
	struct event like;
	va_list arguments;

	begin(at->tenant, at->index, kind, &like);
	va_start(arguments, format);
	add(at->tenant->daemon, &like, format, arguments);
	va_end(arguments);
}

void events_device(struct daemon *d, uint32_t device, enum happened kind, const char *format, ...)
{
	struct event like;
	va_list arguments;

	begin_of_nobody(device, kind, &like);
	va_start(arguments, format);
	add(d, &like, format, arguments);
	va_end(arguments);
}

void events_meted(struct daemon *d, enum happened kind, const char *format, ...)
{
	struct event like;
	va_list arguments;

	begin_of_nobody(EVENTS_NONE, kind, &like);
	va_start(arguments, format);
	add(d, &like, format, arguments);
	va_end(arguments);
}

void events_began(struct daemon *d)
{
	char found[60] = "";

	if (!d->tenants.count && !d->options.system && !d->shown)
		return;
	if (d->tenants.count)
		snprintf(found, sizeof(found), ", and found %u tenant%s", d->tenants.count,
			 d->tenants.count == 1 ? "" : "s");
	events_meted(d, HAPPENED_BEGAN, "meted %s began as process %d%s", METE_VERSION,
		     (int)getpid(), found);
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

void events_row(const struct event *event, struct wire_event_row *ret_row)
{
	ret_row->number = event->number;
	ret_row->at = event->at_ns;
	ret_row->kind = event->kind;
	ret_row->tenant = event->tenant;
	ret_row->device = event->device;
	ret_row->owner = event->owner;
	wire_set_text(&ret_row->name, event->name);
	wire_set_text(&ret_row->said, event->said);
}

void events_free(struct daemon *d)
{
	for (uint32_t i = 0; i < d->events.count; i++)
		free(d->events.event[i]);
	free(d->events.event);
	d->events = (struct events){0};
}
