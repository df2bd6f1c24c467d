/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mete events --follow: one request waits in meted until something happens, and costs nothing
 * meanwhile. A meted that has ended is waited for, as one that is replaced comes back.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/text.h"
#include "cli/events.h"

enum {
	ABSENT_MS = 500,       /* a meted of this machine is looked for again */
	ABSENT_NODE_MS = 5000, /* a node's, for which kubectl starts anew */
	TEST_NODE_MS = 60000,  /* a silent connection to a node is tested */
};

static int ask(struct events_order *order, struct fault *why)
{
	struct wire_message request = {.code = WIRE_events_await};

	request.events_await.after = order->after;
	return admin_send(&order->remote.admin, &request, why);
}

/* A second question while the first one waits has the first one answered, with nothing. So what is
 * between us and a node sees that the connection is used, and a dead one is noticed. */
static int test_connection(struct events_order *order, int *asked, struct fault *why)
{
	if (*asked > 1)
		return fault_set(why, -ETIMEDOUT, "its meted does not answer");
	++*asked;
	return ask(order, why);
}

static int print_new(struct events_order *order, int *asked, struct fault *why)
{
	int r = events_read(order, why);

	order->unwritten = r == 0 && fflush(stdout) != 0;
	if (order->unwritten)
		return fault_set(why, -EIO, "its output cannot be written: %s", strerror(errno));
	return r < 0 || --*asked ? r : ask(order, why);
}

/* Until it fails. 0: the reader of our lines has gone, which only a poll of them shows. */
static int read_all(struct events_order *order, struct fault *why)
{
	struct pollfd fds[] = {{.fd = order->remote.admin.fd, .events = POLLIN},
			       {.fd = STDOUT_FILENO}};
	int asked = 1, r = ask(order, why);

	while (r == 0) {
		int ready = poll(fds, ARRAY_SIZE(fds), order->remote.node ? TEST_NODE_MS : -1);

		if (ready > 0 && fds[1].revents)
			return 0;
		if (ready == 0)
			r = test_connection(order, &asked, why);
		else if (ready > 0)
			r = print_new(order, &asked, why);
	}
	return remote_check(&order->remote, r, why);
}

struct following {
	struct fault said; /* why there is no meted now; "": there is one */
	bool reached;	   /* once at least */
};

/* A fault that waiting does not mend ends it: a node that was never reached, and on this machine
 * all but a meted that is not there. */
static bool comes_back(const struct events_order *order, const struct following *f, int r)
{
	if (order->unwritten || r == -ENOTSUP)
		return false;
	if (order->remote.node)
		return f->reached;
	return r == ADMIN_ABSENT || r == -ECONNRESET || r == -EPIPE || r == -ECONNREFUSED;
}

static void say_gone(const struct events_order *order, struct following *f, int r,
		     const struct fault *why)
{
	struct fault said = {"no meted is running: waiting for one"};

	if (order->remote.node)
		best_effort(fault_set(&said, r, "%s: waiting until it is back", why->text));
	else if (f->reached)
		best_effort(fault_set(&said, r, "meted has ended: waiting until it is back"));
	text_make_plain(said.text);
	if (strcmp(f->said.text, said.text) != 0)
		fprintf(stderr, "mete events: %s\n", said.text);
	f->said = said;
}

static void say_back(struct following *f)
{
	if (f->said.text[0])
		fputs("mete events: meted is there\n", stderr);
	f->said.text[0] = '\0';
	f->reached = true;
}

int events_follow(struct events_order *order, struct fault *why)
{
	struct following f = {.reached = false};

	for (;;) {
		int r = events_reach(order, why);

		if (r == 0) {
			say_back(&f);
			r = read_all(order, why);
		}
		if (r == 0 || !comes_back(order, &f, r))
			return r;
		say_gone(order, &f, r, why);
		admin_close(&order->remote.admin);
		poll(NULL, 0, order->remote.node ? ABSENT_NODE_MS : ABSENT_MS);
	}
}
