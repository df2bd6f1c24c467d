/* SPDX-License-Identifier: Apache-2.0 */
/* A client that asks too often keeps no other from asking. */
#include "http/http_pace.h"

#include "tests/test.h"

enum { HOST_BURST = 6, PART_BURST = 3 };

static const uint64_t second_ns = 1000000000;

static struct http_paces paces;
static uint64_t now_ns;

static void begin(void)
{
	now_ns = 1000 * second_ns;
	paces = (struct http_paces){.all = {12, second_ns / 5},
				    .host = {HOST_BURST, second_ns / 2},
				    .part = {PART_BURST, second_ns}};
}

static bool asks(const char *host, uint64_t part)
{
	const struct http_asker asker = {.host = http_host_named(host), .part = part};

	return http_paces_take(&paces, &asker, now_ns);
}

static uint32_t asks_often(const char *host, uint64_t part)
{
	uint32_t had = 0;

	for (int i = 0; i < 50; i++)
		had += asks(host, part);
	return had;
}

TEST(a_host_has_its_burst_and_then_its_rate)
{
	begin();
	expect_eq(asks_often("a", 0), HOST_BURST);
	now_ns += 10 * second_ns / 4;
	expect_eq(asks_often("a", 0), 5);
	now_ns += 1000 * second_ns;
	expect_eq(asks_often("a", 0), HOST_BURST);
}

TEST(a_client_that_asks_without_end_leaves_the_rest_to_others)
{
	begin();
	for (int i = 0; i < 600; i++) {
		char other[16];

		asks_often("a", 0);
		snprintf(other, sizeof(other), "b%d", i);
		if (i % 10 == 0)
			expect(asks(other, 0));
		now_ns += second_ns / 10;
	}
}

TEST(hosts_that_ask_at_once_have_no_more_than_the_common_burst)
{
	uint32_t had = 0;

	begin();
	for (int i = 0; i < 50; i++) {
		char host[16];

		snprintf(host, sizeof(host), "h%d", i);
		had += asks(host, 0);
	}
	expect_eq(had, 12);
}

/* Two have more together than all may; a new client has the half that they must leave. */
TEST(two_clients_that_ask_without_end_leave_the_rest_to_others)
{
	begin();
	for (int i = 0; i < 600; i++) {
		char other[16];

		asks_often("a", 0);
		asks_often("c", 0);
		snprintf(other, sizeof(other), "b%d", i);
		if (i % 10 == 0)
			expect(asks(other, 0));
		now_ns += second_ns / 10;
	}
}

TEST(behind_one_server_each_user_has_a_pace_of_its_own)
{
	begin();
	expect_eq(asks_often("proxy", 1), PART_BURST);
	for (int i = 0; i < 600; i++) {
		asks_often("proxy", 1);
		if (i % 10 == 0)
			expect(asks("proxy", (uint64_t)i + 2));
		now_ns += second_ns / 10;
	}
}

TEST(a_host_that_invents_users_takes_from_itself)
{
	uint64_t part = 0;

	begin();
	for (int i = 0; i < 600; i++) {
		uint32_t had = 0;

		for (int j = 0; j < 50; j++)
			had += asks("a", ++part);
		expect(had <= (i ? 1 : HOST_BURST));
		if (i % 10 == 0)
			expect(asks("b", part));
		now_ns += second_ns / 10;
	}
}

TEST(two_hosts_that_invent_users_leave_the_rest_to_others)
{
	uint64_t part = 0;

	begin();
	for (int i = 0; i < 600; i++) {
		char other[16];

		for (int j = 0; j < 50; j++) {
			part++;
			asks("a", part);
			asks("c", part);
		}
		snprintf(other, sizeof(other), "b%d", i);
		if (i % 10 == 0)
			expect(asks(other, 0));
		now_ns += second_ns / 10;
	}
}

TEST(a_refused_request_costs_nobody_anything)
{
	struct http_paces before;

	begin();
	asks_often("a", 1);
	before = paces;
	expect_eq(asks_often("a", 1), 0);
	expect(memcmp(&before, &paces, sizeof(paces)) == 0);
}
