/* SPDX-License-Identifier: Apache-2.0 */
/* Reads events from meted, and prints those that are meant. */
#include <string.h>
#include <time.h>

#include "base/place.h"
#include "base/wrap.h"
#include "cli/events.h"
#include "cli/grid.h"
#include "core/happened.h"
#include "view/event_write.h"

enum {
	SAID_COLUMN = 41, /* behind the time, the kind and the GPU */
	WIDE = 72,	  /* columns of a terminal with room for what is said beside those */
	NARROW_INDENT = 4,
};

static const uint64_t second_ns = 1000000000;

static bool is_called(const struct wire_event_row *event, const char *who)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", event->tenant);
	return event->tenant && (strcmp(event->name.text, who) == 0 || strcmp(number, who) == 0);
}

static bool is_meant(const struct events_order *order, const struct wire_event_row *event)
{
	return event->at >= order->since_ns && (!order->tenant || is_called(event, order->tenant));
}

static void note_name(struct events_order *order, const struct wire_event_row *event)
{
	if (!event->tenant || order->names == EVENTS_NAMES)
		return;
	for (uint32_t i = 0; i < order->names; i++)
		if (strcmp(order->name[i], event->name.text) == 0)
			return;
	strcpy(order->name[order->names++], event->name.text);
}

/* In this machine's time, as logs have it; the date of an event may matter. */
static void print_line(const struct wire_event_row *event)
{
	time_t at = (time_t)(event->at / second_ns);
	char when[32] = "", device[16] = "", text[2 * WIRE_TEXT_MAX + 32];
	unsigned width = screen_now().width;
	struct tm tm;

	if (localtime_r(&at, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	if (event->device != UINT32_MAX)
		snprintf(device, sizeof(device), "GPU %u", event->device);
	printf("%-19s  %-10s  %-6s  ", when, happened_word(event->kind), device);
	if (event->tenant)
		snprintf(text, sizeof(text), "%s (tenant %u): %s", event->name.text, event->tenant,
			 event->said.text);
	else
		snprintf(text, sizeof(text), "%s", event->said.text);
	wrap_print_within(stdout, text, SAID_COLUMN,
			  width && width < WIDE ? NARROW_INDENT : SAID_COLUMN, width);
}

static void print(const struct events_order *order, const struct wire_event_row *event)
{
	if (!order->json) {
		print_line(event);
		return;
	}
	event_write(stdout, event);
	putchar('\n');
}

void events_take(struct events_order *order, const struct wire_event_row *event)
{
	order->after = event->number;
	note_name(order, event);
	if (!is_meant(order, event))
		return;
	print(order, event);
	order->printed = true;
}

static void take_ordered(void *owner, const struct wire_event_row *event)
{
	events_take(owner, event);
}

int events_read(struct events_order *order, struct fault *why)
{
	return events_rows(&order->remote.admin, take_ordered, order, why);
}

int events_rows(struct admin *admin, events_taker *take_row, void *owner, struct fault *why)
{
	struct wire_message answer = {0};
	int r = admin_next(admin, &answer, why);

	for (; r == 0 && answer.code == WIRE_event_row; r = admin_next(admin, &answer, why))
		take_row(owner, &answer.event_row);
	if (r < 0 && answer.code == WIRE_refused && answer.refused.code == WIRE_REFUSED_UNKNOWN)
		return fault_set(why, -ENOTSUP,
				 "this meted is older than this mete, and keeps no events");
	return r;
}

int events_reach(struct events_order *order, struct fault *why)
{
	char place[PLACE_MAX];

	if (order->remote.node)
		return remote_connect(&order->remote, why);
	return order->remote.admin.fd >= 0 ? 0
					   : admin_connect_any(&order->remote.admin, place, why);
}
