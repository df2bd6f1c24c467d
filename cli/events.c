/* SPDX-License-Identifier: Apache-2.0 */
/* mete events: what has happened on this machine, or on a node. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "base/place.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/values.h"
#include "core/happened.h"
#include "view/event_write.h"

enum { AGAIN_MS = 500 }; /* with --follow */

static const uint64_t second_ns = 1000000000, longest_ns = 365 * 24 * 3600 * second_ns;

struct order {
	struct remote remote;
	const char *tenant; /* NULL: all events */
	uint64_t since_ns;  /* of the machine's clock */
	bool json, follow;
	uint64_t after; /* the number of the last event that was read */
};

static void order_done_owned(struct order *order)
{
	remote_close(&order->remote);
}

static bool is_meant(const struct order *order, const struct wire_event_row *event)
{
	char number[16];

	if (event->at < order->since_ns)
		return false;
	if (!order->tenant)
		return true;
	snprintf(number, sizeof(number), "%u", event->tenant);
	return event->tenant &&
	       (strcmp(event->name.text, order->tenant) == 0 || strcmp(number, order->tenant) == 0);
}

/* In this machine's time, as logs have it; the date of an event may matter. */
static void print_line(const struct wire_event_row *event)
{
	time_t at = (time_t)(event->at / second_ns);
	char when[32] = "", device[16] = "";
	struct tm tm;

	if (localtime_r(&at, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &tm);
	if (event->device != UINT32_MAX)
		snprintf(device, sizeof(device), "GPU %u", event->device);
	printf("%-19s  %-10s  %-6s  ", when, happened_word(event->kind), device);
	if (event->tenant)
		printf("%s (tenant %u): ", event->name.text, event->tenant);
	printf("%s\n", event->said.text);
}

static void print(const struct order *order, const struct wire_event_row *event)
{
	if (!order->json) {
		print_line(event);
		return;
	}
	event_write(stdout, event);
	putchar('\n');
}

static int read_events(struct order *order, struct admin *admin, struct fault *why)
{
	struct wire_message request = {.code = WIRE_events_ask}, answer = {0};
	int r;

	request.events_ask.after = order->after;
	r = admin_ask(admin, &request, &answer, why);
	for (; r == 0 && answer.code == WIRE_event_row; r = admin_next(admin, &answer, why)) {
		order->after = answer.event_row.number;
		if (!is_meant(order, &answer.event_row))
			continue;
		print(order, &answer.event_row);
	}
	if (answer.code == WIRE_refused && answer.refused.code == WIRE_REFUSED_UNKNOWN)
		return fault_set(why, -ENOTSUP,
				 "this meted is older than this mete, and keeps no events");
	return r;
}

/* 0; ADMIN_ABSENT. Connected already: does nothing. */
static int reach(struct order *order, struct fault *why)
{
	char place[PLACE_MAX];

	if (order->remote.node)
		return remote_connect(&order->remote, why);
	return order->remote.admin.fd >= 0 ? 0
					   : admin_connect_any(&order->remote.admin, place, why);
}

static int print_new(struct order *order, struct fault *why)
{
	int r = reach(order, why);

	if (r == 0)
		r = read_events(order, &order->remote.admin, why);
	return r < 0 ? remote_check(&order->remote, r, why) : r;
}

/* A meted that has ended is waited for, as one that is replaced comes back. Its successor numbers
 * its events anew. */
static bool comes_back(struct order *order, int r)
{
	if (r == ADMIN_ABSENT)
		return true;
	if (order->remote.node || (r != -ECONNRESET && r != -EPIPE && r != -ECONNREFUSED))
		return false;
	admin_close(&order->remote.admin);
	order->after = 0;
	return true;
}

static int follow(struct order *order, struct fault *why)
{
	int r;

	do {
		r = print_new(order, why);
		if (r != 0 && !comes_back(order, r))
			return r;
		if (fflush(stdout) != 0)
			return fault_set(why, -EPIPE, "its output cannot be written: %s",
					 strerror(errno));
	} while (poll(NULL, 0, AGAIN_MS) == 0 || errno == EINTR);
	return 0;
}

static int read_order(const struct cli_call *call, struct order *order, struct fault *why)
{
	const char *format = cli_value(call, "format");
	struct timespec now;
	uint64_t ago_ns = 0;
	int r = remote_read(&order->remote, call, why);

	if (r == 0)
		r = values_time(call, "since", 0, longest_ns, &ago_ns, why);
	if (r == 0 && format && strcmp(format, "json") != 0 && strcmp(format, "lines") != 0)
		return fault_set(why, -EINVAL, "--format '%.40s': accepted are lines and json",
				 format);
	order->tenant = cli_value(call, "tenant");
	order->follow = cli_value(call, "follow") != NULL;
	order->json = cli_value(call, "json") || (format && strcmp(format, "json") == 0);
	if (cli_value(call, "since")) {
		clock_gettime(CLOCK_REALTIME, &now);
		order->since_ns = (uint64_t)now.tv_sec * second_ns + (uint64_t)now.tv_nsec - ago_ns;
	}
	return r;
}

int events_main(const struct cli_call *call)
{
	owned(order_done) struct order order = {.remote = {.admin = {.fd = -1}}};
	struct fault why;
	int r;

	if (call->argc)
		return cli_complain(call, CLI_USAGE,
				    "'%s': events takes no arguments; --tenant names a tenant",
				    call->argv[0]);
	if (read_order(call, &order, &why) < 0)
		return cli_fail(call, CLI_USAGE, &why);
	r = order.follow ? follow(&order, &why) : print_new(&order, &why);
	if (r < 0)
		return cli_fail(call, 1, &why);
	if (r == ADMIN_ABSENT)
		fputs("mete events: no meted is running, and a meted that has ended leaves no "
		      "events; its log has them\n",
		      stderr);
	return 0;
}
