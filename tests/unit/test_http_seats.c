/* SPDX-License-Identifier: Apache-2.0 */
/* Which clients may have an answer that goes on, where many come from one host. */
#include "http/http_seats.h"

#include <stdio.h>

#include "tests/test.h"

/* Descriptors that nobody has: nothing is sent. */
enum { FIRST_FD = 100000 };

static struct http_seats seats;
static uint64_t now_ns;

static void begin(void)
{
	now_ns = 1000000000;
	http_seats_init(&seats);
}

/* As http.c does it. NULL: the client may not. *ret_instead: the stream that had to end. */
static struct http_seat *stream(const char *name, struct http_seat **ret_instead)
{
	const struct http_host proxy = http_host_named("proxy"), whose = http_host_named(name);
	struct http_seat *seat;

	now_ns++;
	*ret_instead = NULL;
	if (!http_seats_offer(&seats, &proxy, now_ns))
		return NULL;
	seat = http_seats_take(&seats, FIRST_FD + (int)now_ns, &proxy, now_ns);
	if (!http_seats_may_stream(&seats, &whose, ret_instead)) {
		seat->fd = -1;
		return NULL;
	}
	if (*ret_instead)
		(*ret_instead)->streams = false;
	seat->host = whose;
	seat->streams = seat->waits = true;
	seat->began_ns = now_ns;
	return seat;
}

static uint32_t streams_of(const char *name)
{
	const struct http_host whose = http_host_named(name);
	uint32_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(seats.seat); i++)
		n += seats.seat[i].fd >= 0 && seats.seat[i].streams &&
		     http_host_same(&seats.seat[i].host, &whose);
	return n;
}

static void given_each_has_four(const char *const *names, size_t count)
{
	struct http_seat *instead;

	begin();
	for (size_t i = 0; i < count; i++)
		for (int n = 0; n < 4; n++)
			stream(names[i], &instead);
}

TEST(three_users_behind_one_server_leave_streams_for_others)
{
	static const char *const three[] = {"ada", "bob", "carol"};
	struct http_seat *instead;

	given_each_has_four(three, ARRAY_SIZE(three));
	expect_eq(streams_of("ada") + streams_of("bob") + streams_of("carol"), 12);
	for (int i = 0; i < HTTP_STREAMS - 12; i++) {
		char name[16];

		snprintf(name, sizeof(name), "user-%d", i);
		expect(stream(name, &instead) != NULL);
		expect(instead == NULL);
	}
}

TEST(where_all_seats_are_taken_the_user_with_most_gives_one_to_a_user_with_none)
{
	static const char *const all[] = {"ada", "bob", "carol", "d", "e", "f", "g", "h", "i"};
	struct http_seat *instead;
	uint32_t most = 0;

	given_each_has_four(all, ARRAY_SIZE(all));
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		most += streams_of(all[i]);
	expect_eq(most, HTTP_STREAMS);
	expect(stream("late", &instead) != NULL);
	expect(instead != NULL);
	/* The last that one of those had who had four. */
	expect_eq(streams_of("ada") + streams_of("bob") + streams_of("carol"), 11);
	expect_eq(streams_of("late"), 1);
	/* A user who has some is not given another one's. */
	expect(stream("late", &instead) == NULL);
	expect(stream("i", &instead) == NULL);
}

TEST(nobody_loses_his_only_stream)
{
	struct http_seat *instead;
	char name[16];

	begin();
	for (int i = 0; i < HTTP_STREAMS; i++) {
		snprintf(name, sizeof(name), "user-%d", i);
		expect(stream(name, &instead) != NULL);
	}
	expect(stream("late", &instead) == NULL);
	for (int i = 0; i < HTTP_STREAMS; i++) {
		snprintf(name, sizeof(name), "user-%d", i);
		expect_eq(streams_of(name), 1);
	}
}

TEST(a_user_that_is_answered_once_still_gets_a_seat)
{
	static const char *const all[] = {"ada", "bob", "carol", "d", "e", "f", "g", "h", "i"};
	const struct http_host proxy = http_host_named("proxy");

	given_each_has_four(all, ARRAY_SIZE(all));
	for (int i = 0; i < HTTP_SEATS - HTTP_STREAMS; i++) {
		expect(http_seats_offer(&seats, &proxy, ++now_ns));
		expect(http_seats_take(&seats, FIRST_FD - i, &proxy, now_ns) != NULL);
	}
}

static uint32_t connections_of(const struct http_host *host)
{
	uint32_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(seats.seat); i++)
		n += seats.seat[i].fd >= 0 && !seats.seat[i].left &&
		     http_host_same(&seats.seat[i].host, host);
	return n;
}

TEST(a_host_with_all_its_seats_gives_one_up_for_each_further_connection)
{
	const struct http_host host = http_host_named("a"), other = http_host_named("b");
	struct http_seat *seat;

	begin();
	for (int i = 0; i < HTTP_SEATS_EACH + 8; i++) {
		now_ns += 1000000000;
		expect(http_seats_offer(&seats, &host, now_ns));
		seat = http_seats_take(&seats, FIRST_FD + i, &host, now_ns);
		expect(seat != NULL);
		seat->spoke = true;
		expect(connections_of(&host) <= HTTP_SEATS_EACH);
	}
	expect_eq(connections_of(&host), HTTP_SEATS_EACH);
	/* The longest answered ones have left. */
	expect(http_seats_find(&seats, FIRST_FD)->left);
	expect(!http_seats_find(&seats, FIRST_FD + HTTP_SEATS_EACH)->left);
	expect(http_seats_offer(&seats, &other, now_ns));
}

TEST(where_all_seats_are_taken_the_host_with_most_gives_one_up_for_another)
{
	const struct http_host a = http_host_named("a"), late = http_host_named("late");
	char name[16];

	begin();
	for (int i = 0; i < HTTP_SEATS; i++) {
		struct http_host host = a;

		snprintf(name, sizeof(name), "h%d", i);
		if (i >= 4)
			host = http_host_named(name);
		expect(http_seats_offer(&seats, &host, ++now_ns));
		expect(http_seats_take(&seats, FIRST_FD + i, &host, now_ns) != NULL);
	}
	expect_eq(connections_of(&a), 4);
	expect(http_seats_offer(&seats, &late, ++now_ns));
	expect_eq(connections_of(&a), 3);
}

TEST(a_connection_is_cut_when_its_time_is_over_unless_it_waits)
{
	const uint64_t second_ns = 1000000000, patience_ns = HTTP_PATIENCE_S * second_ns;
	const struct http_host host = http_host_named("a");
	struct http_seat *seat;
	uint64_t began_ns;

	begin();
	began_ns = now_ns;
	expect_eq(http_seats_cut(&seats, now_ns), UINT64_MAX);
	expect(!http_seats_await(&seats));
	for (int i = 0; i < 3; i++)
		expect(http_seats_take(&seats, FIRST_FD + i, &host, now_ns + (uint64_t)i) != NULL);
	expect(http_seats_await(&seats));
	for (int i = 0; i < 3; i++)
		http_seats_find(&seats, FIRST_FD + i)->spoke = true;
	expect(!http_seats_await(&seats));
	seat = http_seats_find(&seats, FIRST_FD);
	seat->waits = true;
	expect_eq(http_seats_cut(&seats, began_ns + patience_ns), began_ns + patience_ns + 1);
	expect(!seat->left && !http_seats_find(&seats, FIRST_FD + 1)->left);
	expect_eq(http_seats_cut(&seats, began_ns + patience_ns + 1), began_ns + patience_ns + 2);
	expect(http_seats_find(&seats, FIRST_FD + 1)->left);
	expect(!http_seats_find(&seats, FIRST_FD + 2)->left && !seat->left);
}
