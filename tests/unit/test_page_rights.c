/* SPDX-License-Identifier: Apache-2.0 */
/* Whose tokens are known, with a cluster and a clock of the test's own. */
#include "page/rights.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/no_boards.h"
#include "tests/test.h"

enum { OWNER = 4711, QUESTIONS = 128, SECOND = 1000000000 };

uint64_t __wrap_loop_now_ns(void);

static uint64_t now_ns = (uint64_t)1000 * SECOND;

/* A question under way. */
struct right_asked {
	right_told *told; /* NULL: it is free */
	void *owner;
	uint64_t since_ns;
	char said[64]; /* the token, or NAMESPACE/NAME */
	bool who;
};

static struct right_asked asked[QUESTIONS];
static struct loop loop;
static struct looks looks;
static struct rights_table table;
static uint32_t settled, namespaces;

uint64_t __wrap_loop_now_ns(void)
{
	return now_ns;
}

static int put(right_told *told, void *owner, bool is_who, const char *said,
	       struct right_asked **ret_asked)
{
	for (size_t i = 0; i < QUESTIONS; i++) {
		if (asked[i].told)
			continue;
		asked[i] = (struct right_asked){
			.told = told, .owner = owner, .since_ns = now_ns, .who = is_who};
		snprintf(asked[i].said, sizeof(asked[i].said), "%s", said);
		*ret_asked = &asked[i];
		return 0;
	}
	return -ENOMEM;
}

static int who(struct daemon *d, const char *token, const char *audience, right_told *told,
	       void *owner, struct right_asked **ret_asked)
{
	(void)d;
	(void)audience;
	return put(told, owner, true, token, ret_asked);
}

static int may(struct daemon *d, const char *user, const struct right *right, right_told *told,
	       void *owner, struct right_asked **ret_asked)
{
	char said[64];

	(void)d;
	(void)user;
	snprintf(said, sizeof(said), "%s/%s", right->of_node ? "node" : right->namespace,
		 right->name ? right->name : "");
	return put(told, owner, false, said, ret_asked);
}

static void forget(struct daemon *d, struct right_asked *one)
{
	(void)d;
	if (one)
		one->told = NULL;
}

static void rows(struct daemon *d, void (*row)(void *owner, const struct wire_message *row),
		 void *owner)
{
	(void)d;
	for (uint32_t i = 0; i < namespaces; i++) {
		struct wire_message tenant = {.code = WIRE_tenant_row};

		tenant.tenant_row = (struct wire_tenant_row){.tenant = i + 1, .owner = OWNER};
		snprintf(tenant.tenant_row.name.text, sizeof(tenant.tenant_row.name.text),
			 "n%u/pod/main", i);
		row(owner, &tenant);
	}
}

static void freshen(struct daemon *d)
{
	(void)d;
}

static void tell(struct daemon *d, struct wire_admin_welcome *ret_said)
{
	(void)d;
	*ret_said = (struct wire_admin_welcome){.pid = 1};
}

static void events(struct daemon *d, uint64_t after,
		   void (*event)(void *owner, const struct wire_event_row *event), void *owner)
{
	(void)d;
	(void)after;
	(void)event;
	(void)owner;
}

static const struct page_host host = {.loop = &loop,
				      .owner = OWNER,
				      .believed_ns = (uint64_t)3600 * SECOND,
				      .rows = rows,
				      .events = events,
				      .freshen = freshen,
				      .want_boards = want_boards,
				      .board = board,
				      .boards_since_ns = boards_since_ns,
				      .tell = tell,
				      .who = who,
				      .may = may,
				      .forget = forget};

static void on_settled(void *owner)
{
	(void)owner;
	settled++;
}

static void on_closed(struct loop_timer *timer)
{
	(void)timer;
}

static void begin(uint32_t with_namespaces)
{
	memset(asked, 0, sizeof(asked));
	namespaces = with_namespaces;
	settled = 0;
	expect_eq(loop_init(&loop), 0);
	expect_eq(looks_open(&looks, &host), 0);
	rights_open(&table, &looks, on_settled, NULL);
}

static void end(void)
{
	rights_close(&table);
	looks_close(&looks, on_closed);
	loop_done(&loop);
}

static void answer(struct right_asked *one, int r)
{
	right_told *told = take(one->told);
	char name[64];

	/* "alice-2" is a token of alice's. */
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(one->said, "-"), one->said);
	told(one->owner, r, name, name);
}

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
