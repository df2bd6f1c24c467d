/* SPDX-License-Identifier: Apache-2.0 */
/* The events that meted keeps: in their order, bounded, and nobody pushes out everybody else's. */
#include "node/events.h"

#include <string.h>

#include "tests/test.h"

static struct daemon *d;
static struct tenant *mine, *theirs;

static struct tenant *make(uint32_t id, uid_t owner, char *name)
{
	struct tenant *t = calloc(1, sizeof(*t) + sizeof(t->device[0]));

	expect(t);
	t->daemon = d;
	t->id = id;
	t->owner = owner;
	t->name = name;
	t->device[0].tenant = t;
	t->device[0].index = 3;
	return t;
}

static void begin(void)
{
	d = calloc(1, sizeof(*d));
	expect(d);
	mine = make(1, 1000, "mine");
	theirs = make(2, 1001, "theirs");
}

static void end(void)
{
	events_free(d);
	free(mine);
	free(theirs);
	free(d);
}

static uint32_t count(const struct tenant *t)
{
	const struct event *event;
	uint64_t after = 0;
	uint32_t n = 0;

	for (; (event = events_after(d, after)) != NULL; after = event->number)
		n += event->tenant == t->id;
	return n;
}

TEST(events_are_read_from_any_number_on)
{
	const struct event *event;

	begin();
	expect(!events_after(d, 0));
	events_at(&mine->device[0], HAPPENED_CAME, "came, with a limit of %s", "4GiB");
	events_device(d, 5, HAPPENED_CORDONED, "it takes no new tenants");
	event = events_after(d, 0);
	expect(event);
	expect_eq(event->number, 1);
	expect_eq(event->device, 3);
	expect_eq(event->owner, 1000);
	expect_str(event->name, "mine");
	expect_str(event->said, "came, with a limit of 4GiB");
	event = events_after(d, 1);
	expect(event);
	expect_eq(event->device, 5);
	expect_eq(event->tenant, 0);
	expect_str(event->name, "");
	expect(!events_after(d, 2));
	end();
}

/* A user's own meted comes and goes with each `mete run`. */
TEST(the_beginning_of_a_meted_that_comes_and_goes_is_told_only_where_it_found_tenants)
{
	begin();
	events_began(d);
	expect(!events_after(d, 0));
	d->tenants.count = 1;
	events_began(d);
	expect(strstr(events_after(d, 0)->said, ", and found 1 tenant"));
	d->tenants.count = 0;
	d->options.system = true;
	events_began(d);
	expect(events_after(d, 1));
	expect(!strstr(events_after(d, 1)->said, "found"));
	d->options.system = false;
	d->shown = (struct shown *)d; /* a page, or metrics: it stays, too */
	events_began(d);
	expect(events_after(d, 2));
	end();
}

TEST(the_oldest_goes_where_all_have_as_much)
{
	begin();
	for (uint32_t i = 0; i < EVENTS_MOST + 6; i++)
		events_tenant(i % 2 ? mine : theirs, HAPPENED_SET, "%u", i);
	expect_eq(count(mine) + count(theirs), EVENTS_MOST);
	expect_eq(events_after(d, 0)->number, 7);
	end();
}

TEST(a_user_that_makes_many_events_pushes_out_its_own)
{
	begin();
	events_tenant(theirs, HAPPENED_SUSPENDED, "suspended");
	events_device(d, 0, HAPPENED_CORDONED, "it takes no new tenants");
	for (uint32_t i = 0; i < 3 * EVENTS_MOST; i++)
		events_tenant(mine, HAPPENED_SET, "%u", i);
	expect_eq(count(theirs), 1);
	expect_eq(events_after(d, 0)->number, 1);
	expect_eq(events_after(d, 1)->number, 2);
	expect_eq(count(mine), EVENTS_MOST - 2);
	end();
}

TEST(two_users_who_make_many_events_do_not_push_out_a_thirds)
{
	struct tenant *third;

	begin();
	third = make(3, 1002, "third");
	for (uint32_t i = 0; i < EVENTS_MOST / 3; i++)
		events_tenant(third, HAPPENED_SET, "%u", i);
	for (uint32_t i = 0; i < 4 * EVENTS_MOST; i++)
		events_tenant(i % 2 ? mine : theirs, HAPPENED_SET, "%u", i);
	expect_eq(count(third), EVENTS_MOST / 3);
	free(third);
	end();
}

/* Pods come and go, each with its few events. */
TEST(a_namespace_of_many_pods_does_not_push_out_anothers_events)
{
	begin();
	mine->owner = theirs->owner = 0;
	mine->pods = theirs->pods = true;
	mine->name = "crowd/a/c";
	theirs->name = "quiet/b/c";
	for (uint32_t i = 0; i < 10; i++)
		events_tenant(theirs, HAPPENED_SET, "%u", i);
	for (uint32_t i = 0; i < 3 * EVENTS_MOST; i++) {
		mine->id = 3 + i;
		events_tenant(mine, HAPPENED_CAME, "%u", i);
	}
	expect_eq(count(theirs), 10);
	end();
}

TEST(a_pod_that_makes_many_events_pushes_out_its_own)
{
	struct tenant *within;

	begin();
	mine->owner = theirs->owner = 0;
	mine->pods = theirs->pods = true;
	within = make(3, 1000, "within");
	within->outer = mine;
	events_tenant(theirs, HAPPENED_SUSPENDED, "suspended");
	for (uint32_t i = 0; i < 3 * EVENTS_MOST; i++)
		events_tenant(i % 2 ? mine : within, HAPPENED_SET, "%u", i);
	expect_eq(count(theirs), 1);
	free(within);
	end();
}

/* What a program chose moves nobody's cursor, also where it is cut. */
TEST(an_events_sentence_is_plain_and_bounded)
{
	char text[600];

	begin();
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	memcpy(text, "a\x1b[2J\n", 6);
	events_tenant(mine, HAPPENED_SET, "%s", text);
	expect(strlen(events_after(d, 0)->said) == WIRE_TEXT_MAX);
	expect(!strchr(events_after(d, 0)->said, '\x1b'));
	expect(!strchr(events_after(d, 0)->said, '\n'));
	end();
}
