/* SPDX-License-Identifier: Apache-2.0 */
/* A client that was answered before is served, however many strangers ask. */
#include "http/http_regulars.h"

#include "tests/test.h"

static const uint64_t second_ns = 1000000000;

static struct http_regulars regulars;
static uint64_t now_ns;

static void begin(void)
{
	now_ns = 1000 * second_ns;
	regulars = (struct http_regulars){0};
}

static void note(const char *name)
{
	const struct http_host host = http_host_named(name);

	http_regulars_note(&regulars, &host, now_ns);
}

static uint32_t takes(const char *name)
{
	const struct http_host host = http_host_named(name);
	uint32_t had = 0;

	for (int i = 0; i < 50; i++)
		had += http_regulars_take(&regulars, &host, now_ns);
	return had;
}

static void note_many(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		char name[16];

		snprintf(name, sizeof(name), "x%u", i);
		note(name);
	}
}

TEST(a_stranger_has_nothing_and_a_regular_its_burst_and_then_one_in_a_second)
{
	begin();
	expect_eq(takes("a"), 0);
	note("a");
	expect_eq(takes("a"), HTTP_REGULAR_BURST);
	expect_eq(takes("b"), 0);
	now_ns += 3 * second_ns / 2;
	expect_eq(takes("a"), 1);
	now_ns += 100 * second_ns;
	expect_eq(takes("a"), HTTP_REGULAR_BURST);
}

TEST(however_many_come_and_ask_a_regular_keeps_its_place_and_its_pace)
{
	begin();
	note("a");
	note_many(1000);
	for (int i = 0; i < 7200; i++) {
		now_ns += second_ns;
		note_many(HTTP_REGULARS + 10);
		expect(takes("x1"));
		expect(takes("a"));
		if (i % 60 == 0)
			note("a");
	}
}

TEST(a_client_that_was_not_answered_for_an_hour_leaves_its_place)
{
	begin();
	note_many(HTTP_REGULARS);
	note("a");
	expect_eq(takes("a"), 0);
	expect(takes("x3"));
	now_ns += HTTP_REGULAR_S * second_ns;
	expect_eq(takes("x3"), 0);
	note("a");
	expect_eq(takes("a"), HTTP_REGULAR_BURST);
}
