/* SPDX-License-Identifier: Apache-2.0 */
/* mete events: what has happened on this machine, or on a node. */
#include "cli/events.h"

#include <string.h>
#include <time.h>

#include "base/text.h"
#include "base/words.h"
#include "cli/cli.h"
#include "cli/since.h"

static void order_done_owned(struct events_order *order)
{
	remote_close(&order->remote);
}

static int print_all(struct events_order *order, struct fault *why)
{
	struct wire_message request = {.code = WIRE_events_ask};
	int r = events_reach(order, why);

	if (r == 0)
		r = admin_send(&order->remote.admin, &request, why);
	if (r == 0)
		r = events_read(order, why);
	return r < 0 ? remote_check(&order->remote, r, why) : r;
}

/* An empty screen does not say whether a name is misspelt. */
static void say_nothing(const struct events_order *order)
{
	const char *names[EVENTS_NAMES], *nearest;
	struct fault said;

	if (!order->tenant) {
		fprintf(stderr, "mete events: nothing has happened %s\n",
			order->since_ns ? "since then" : "yet");
		return;
	}
	for (uint32_t i = 0; i < order->names; i++)
		names[i] = order->name[i];
	nearest = words_nearest(order->tenant, names, order->names);
	if (nearest && strcmp(nearest, order->tenant) == 0)
		nearest = NULL; /* it is told of, but of another time */
	best_effort(fault_set(&said, 0, "nothing is told of a tenant '%.60s'%s%s%s%s",
			      order->tenant, order->since_ns ? " since then" : "",
			      nearest ? "; did you mean '" : "", nearest ? nearest : "",
			      nearest ? "'?" : ""));
	text_make_plain(said.text);
	fprintf(stderr, "mete events: %s\n", said.text);
}

static int read_order(const struct cli_call *call, struct events_order *order, struct fault *why)
{
	const char *format = cli_value(call, "format"), *since = cli_value(call, "since");
	struct timespec now;
	int r = remote_read(&order->remote, call, why);

	clock_gettime(CLOCK_REALTIME, &now);
	if (r == 0 && since)
		r = since_read(since, (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec,
			       &order->since_ns, why);
	if (r == 0 && format && strcmp(format, "json") != 0 && strcmp(format, "lines") != 0)
		return fault_set(why, -EINVAL, "--format '%.40s': accepted are lines and json",
				 format);
	order->tenant = cli_value(call, "tenant");
	order->json = cli_value(call, "json") || (format && strcmp(format, "json") == 0);
	return r;
}

int events_main(const struct cli_call *call)
{
	owned(order_done) struct events_order order = {.remote = {.admin = {.fd = -1}}};
	struct fault why;
	int r;

	if (call->argc)
		return cli_complain(call, CLI_USAGE,
				    "'%s': events takes no arguments; `mete events --tenant %s` "
				    "tells what happened to a tenant",
				    call->argv[0], call->argv[0]);
	if (read_order(call, &order, &why) < 0)
		return cli_fail(call, CLI_USAGE, &why);
	if (cli_value(call, "follow")) {
		r = events_follow(&order, &why);
		return r < 0 ? cli_fail(call, 1, &why) : 0;
	}
	r = print_all(&order, &why);
	if (r < 0)
		return cli_fail(call, 1, &why);
	if (r == ADMIN_ABSENT) {
		r = events_read_kept(&order);
		if (r != 0)
			fprintf(stderr, "mete events: no meted is running%s\n",
				r == EVENTS_SYSTEMS
					? "; what the system's last one has told only root may read"
					: "");
	}
	if (r == 0 && !order.printed && !order.json)
		say_nothing(&order);
	return 0;
}
