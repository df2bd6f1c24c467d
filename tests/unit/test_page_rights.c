/* SPDX-License-Identifier: Apache-2.0 */
/* Whose tokens are known. */
#include "tests/unit/rights_fixture.h"

/* All that were asked that long ago. */
static void answer_after(uint64_t seconds, bool whose, int r)
{
	for (size_t i = 0; i < QUESTIONS; i++)
		if (asked[i].told && asked[i].who == whose &&
		    now_ns - asked[i].since_ns >= seconds * SECOND)
			answer(&asked[i], r);
}

static int enter_from(const char *from, uint64_t part, const char *token, uint64_t waited_ns)
{
	const struct http_asker asker = {.host = http_host_named(from), .part = part};
	struct sight sight;

	return rights_enter(&table, token, &asker, waited_ns, &sight);
}

static int enter(const char *token, uint64_t waited_ns)
{
	return enter_from("one host", 0, token, waited_ns);
}

/* Seconds until it is said that all is known, or that there is no waiting for it. */
static uint32_t wait_for_refusal(uint64_t answers_s, int r)
{
	for (uint32_t second = 1; second < 600; second++) {
		uint32_t before = settled;

		now_ns += SECOND;
		answer_after(answers_s, false, r);
		if (settled != before && enter("alice", second * (uint64_t)SECOND) != RIGHTS_LATER)
			return second;
	}
	return 600;
}

static void given_alice_is_known(uint32_t with_namespaces)
{
	begin(with_namespaces);
	expect_eq(enter("alice", 0), RIGHTS_LATER);
	answer_after(0, true, 0);
}

TEST(nobody_waits_long_for_a_server_that_is_silent)
{
	given_alice_is_known(5);
	answer_after(0, false, RIGHT_NO); /* of the node */
	expect(wait_for_refusal(5, -EIO) <= RIGHTS_PATIENCE_S + RIGHTS_AGAIN_S);
	end();
}

TEST(nobody_waits_long_for_a_server_whose_answers_are_forgotten_as_fast_as_they_come)
{
	given_alice_is_known(40);
	expect(wait_for_refusal(4, RIGHT_NO) <= RIGHTS_PATIENCE_S + RIGHTS_AGAIN_S);
	expect_eq(enter("alice", (RIGHTS_PATIENCE_S + 1) * (uint64_t)SECOND), -EIO);
	end();
}

/* One user presents ever new tokens, as many as there are places. */
static void given_alice_has_them_all(uint32_t with_namespaces, int node)
{
	char token[64];

	begin(with_namespaces);
	for (uint32_t i = 0; i < RIGHTS_MOST; i++) {
		snprintf(token, sizeof(token), "alice-%u", i);
		now_ns += SECOND;
		expect_eq(enter(token, 0), RIGHTS_LATER);
		answer_after(0, true, 0);
		answer_after(0, false, node);
	}
}

static void expect_that_bob_enters(void)
{
	for (uint32_t i = 0; i < RIGHTS_MOST; i++)
		expect(table.known[i] != NULL);
	now_ns += SECOND;
	expect_eq(enter("bob", 0), RIGHTS_LATER);
	answer_after(0, true, 0);
	answer_after(0, false, 0);
	expect_eq(enter("bob", 0), 0);
}

TEST(nobody_takes_all_places_with_tokens_that_are_his)
{
	given_alice_has_them_all(1, 0);
	expect_that_bob_enters();
	/* Her last token is known still. */
	expect_eq(enter("alice-23", 0), 0);
	end();
}

TEST(a_user_that_sees_nothing_here_keeps_nobody_out)
{
	given_alice_has_them_all(0, RIGHT_NO);
	expect_that_bob_enters();
	end();
}

TEST(newcomers_are_no_strangers_while_the_server_is_asked_about_them)
{
	static const char *const users[] = {"ada", "bob", "carol", "dora", "eve", "frank"};

	begin(1);
	for (size_t i = 0; i < ARRAY_SIZE(users); i++)
		expect_eq(enter(users[i], 0), RIGHTS_LATER);
	answer_after(0, true, 0);
	answer_after(0, false, 0);
	for (size_t i = 0; i < ARRAY_SIZE(users); i++)
		expect_eq(enter(users[i], 0), 0);
	end();
}

TEST(strangers_have_few_of_the_places)
{
	char token[64];
	uint32_t known = 0;

	begin(1);
	for (uint32_t i = 0; i < 2 * RIGHTS_MOST; i++) {
		snprintf(token, sizeof(token), "guess-%u", i);
		now_ns += SECOND;
		expect_eq(enter(token, 0), RIGHTS_LATER);
		answer_after(0, true, RIGHT_NO);
		expect_eq(enter(token, 0), RIGHTS_STRANGER);
	}
	for (size_t i = 0; i < RIGHTS_MOST; i++)
		known += table.known[i] != NULL;
	expect_eq(known, RIGHTS_STRANGERS);
	/* All at once they have more, but not all; and one host, not all of these. */
	for (uint32_t i = 0; i < 2 * RIGHTS_NEW; i++) {
		snprintf(token, sizeof(token), "other-%u", i);
		now_ns += SECOND;
		expect_eq(enter(token, 0), i < RIGHTS_NEW_HOST ? RIGHTS_LATER : -EBUSY);
	}
	for (uint32_t i = RIGHTS_NEW_HOST; i < 2 * RIGHTS_NEW; i++) {
		snprintf(token, sizeof(token), "more-%u", i);
		now_ns += SECOND;
		expect_eq(enter_from("another host", 0, token, 0),
			  i < RIGHTS_NEW ? RIGHTS_LATER : -EBUSY);
	}
	known = 0;
	for (size_t i = 0; i < RIGHTS_MOST; i++)
		known += table.known[i] != NULL;
	expect(known <= RIGHTS_NEW + RIGHTS_STRANGERS);
	end();
}

/* A minute of ever new tokens, twenty in a tenth of a second; `server`: its answers come in time.
 */
static void attack(const char *from, uint64_t part, bool server, void (*meanwhile)(uint32_t second))
{
	char token[64];

	begin(1);
	for (uint32_t i = 0; i < 600; i++) {
		for (uint32_t n = 0; n < 20; n++) {
			snprintf(token, sizeof(token), "guess-%u", i * 20 + n);
			enter_from(from, part, token, 0);
		}
		if (i % 10 == 9)
			meanwhile(i / 10);
		for (size_t n = 0; n < QUESTIONS; n++)
			if (asked[n].told && (server || now_ns - asked[n].since_ns >= 5u * SECOND))
				answer(&asked[n],
				       strncmp(asked[n].said, "guess", 5) == 0 ? RIGHT_NO : 0);
		now_ns += SECOND / 10;
	}
	end();
}

/* Somebody whom nobody knew yet: his question is asked at once. */
static void newcomer(const char *from, uint64_t part, uint32_t second)
{
	char token[64];

	if (second % 4)
		return;
	snprintf(token, sizeof(token), "user%u", second);
	expect_eq(enter_from(from, part, token, 0), RIGHTS_LATER);
}

static void newcomer_elsewhere(uint32_t second)
{
	newcomer("another host", 0, second);
}

static void newcomer_behind_the_same_server(uint32_t second)
{
	newcomer("one host", 99, second);
}

TEST(an_attacker_keeps_nobody_else_out)
{
	attack("one host", 0, true, newcomer_elsewhere);
	attack("one host", 0, false, newcomer_elsewhere);
}

TEST(an_attacker_behind_a_server_keeps_no_other_behind_it_out)
{
	attack("one host", 7, true, newcomer_behind_the_same_server);
	attack("one host", 7, false, newcomer_behind_the_same_server);
}
