/* SPDX-License-Identifier: Apache-2.0 */
/* What those may see who say a token, by the cluster's answers. */
#include "tests/unit/rights_fixture.h"

static const char *const all[] = {"n/a/main",  "n/b/main",   "n/c",   "n/c+d",
				  "m/x/first", "other/user", "alone", NULL};
static const char *yes[4];
static struct sight sight;

static bool is_granted(const char *said)
{
	for (size_t i = 0; i < ARRAY_SIZE(yes) && yes[i]; i++)
		if (strcmp(yes[i], said) == 0)
			return true;
	return false;
}

static int enter_as(const char *token, struct sight *ret_sight)
{
	/* Each from a host of its own. */
	const struct http_asker asker = {.host = http_host_named(token)};

	return rights_enter(&table, token, &asker, 0, ret_sight);
}

static int enter(void)
{
	return enter_as("alice", &sight);
}

static void answer_all(void)
{
	for (size_t i = 0; i < QUESTIONS; i++)
		if (asked[i].told)
			answer(&asked[i], asked[i].who || is_granted(asked[i].said) ? 0 : RIGHT_NO);
}

/* Until all is known. */
static int settle(void)
{
	int r = enter();

	for (int i = 0; r == RIGHTS_LATER && i < 50; i++) {
		answer_all();
		r = enter();
	}
	return r;
}

static void given(const char *first, const char *second)
{
	yes[0] = first;
	yes[1] = second;
	tenants = all;
	begin(0);
}

static void sees(const char *const *these, size_t count)
{
	uint32_t n = 0;

	for (size_t i = 0; i < count; i++)
		if (!rights_see(sight.rights, these[i]))
			fail_msg("%s is not seen", these[i]);
	for (size_t i = 0; all[i]; i++)
		n += rights_see(sight.rights, all[i]);
	expect_eq(n, count);
}

TEST(a_pod_is_seen_by_whoever_may_get_it_and_no_other_is)
{
	static const char *const these[] = {"n/a/main"};

	given("pods n/a", NULL);
	expect_eq(settle(), 0);
	sees(these, ARRAY_SIZE(these));
	expect(rights_see(sight.rights, "n/a/side"));
	expect(!rights_see_all(sight.rights));
	expect_eq(sight.uid, OWNER);
	expect(!sight.all);
	end();
}

TEST(several_claims_in_one_are_seen_by_whoever_may_get_each)
{
	static const char *const one[] = {"n/c"}, *const both[] = {"n/c", "n/c+d"};

	given("resourceclaims n/c", NULL);
	expect_eq(settle(), 0);
	sees(one, ARRAY_SIZE(one));
	expect(!rights_see(sight.rights, "n/d+c"));
	end();
	given("resourceclaims n/d", "resourceclaims n/c");
	expect_eq(settle(), 0);
	sees(both, ARRAY_SIZE(both));
	end();
}

TEST(whoever_may_get_all_pods_of_a_namespace_sees_these_and_no_claims)
{
	static const char *const these[] = {"n/a/main", "n/b/main"};

	given("pods n/", NULL);
	expect_eq(settle(), 0);
	sees(these, ARRAY_SIZE(these));
	end();
}

TEST(a_name_that_is_no_containers_and_no_claims_is_seen_by_nobody_but_who_sees_all)
{
	static const char *const none[] = {"",	 "n",	    "/a/main", "/c",
					   "n/", "n//main", "n/a/b/c", "N/a/main"};

	given("pods n/", "resourceclaims n/");
	expect_eq(settle(), 0);
	for (size_t i = 0; i < ARRAY_SIZE(none); i++)
		if (rights_see(sight.rights, none[i]))
			fail_msg("'%s' is seen", none[i]);
	end();
	given("nodes node/", NULL);
	expect_eq(settle(), 0);
	expect(rights_see_all(sight.rights));
	end();
}

TEST(whoever_may_see_nothing_is_told_so)
{
	given(NULL, NULL);
	expect_eq(settle(), RIGHTS_NOTHING);
	end();
}

TEST(a_stream_ends_when_a_right_is_gone)
{
	struct sight other;

	given("pods n/a", NULL);
	expect_eq(settle(), 0);
	other = sight;
	other.id++;
	rights_hold(&table, &sight);
	expect(rights_last(&table, &sight));
	expect(rights_last(&table, &(struct sight){.all = true}));
	expect(!rights_last(&table, &other));
	/* Asked again, it is as it was. */
	now_ns += host.believed_ns + SECOND;
	expect(rights_last(&table, &sight));
	for (int i = 0; i < 10; i++) {
		answer_all();
		expect(rights_last(&table, &sight));
	}
	expect(rights_see(sight.rights, "n/a/main"));
	/* And then it is not. */
	yes[0] = NULL;
	now_ns += host.believed_ns + SECOND;
	for (int i = 0; i < 10; i++) {
		best_effort(rights_last(&table, &sight));
		answer_all();
	}
	expect(!rights_last(&table, &sight));
	expect(!rights_see(sight.rights, "n/a/main"));
	rights_leave(&table, &sight);
	end();
}

TEST(what_nobody_has_confirmed_is_believed_for_a_while_only)
{
	given("pods n/a", "nodes node/");
	expect_eq(settle(), 0);
	rights_hold(&table, &sight);
	now_ns += host.believed_ns + (RIGHTS_BEYOND_S + 1) * (uint64_t)SECOND;
	expect(!rights_see(sight.rights, "n/a/main") && !rights_see_all(sight.rights));
	expect(!rights_last(&table, &sight));
	rights_leave(&table, &sight);
	end();
}

TEST(a_token_that_is_another_users_now_has_none_of_the_first_ones_rights)
{
	given("pods n/a", NULL);
	expect_eq(settle(), 0);
	rights_hold(&table, &sight);
	/* What was granted would be believed while it is asked about again. */
	now_ns += host.believed_ns + SECOND;
	best_effort(rights_last(&table, &sight));
	expect(rights_see(sight.rights, "n/a/main"));
	for (size_t i = 0; i < QUESTIONS; i++)
		if (asked[i].told && asked[i].who)
			take(asked[i].told)(asked[i].owner, 0, "bob", "bob");
	expect_str(rights_name(sight.rights), "bob");
	expect(!rights_see(sight.rights, "n/a/main"));
	expect(!rights_last(&table, &sight));
	rights_leave(&table, &sight);
	end();
}

/* So many as there are places, one after the other, who have not been here before. */
static void newcomers(char kind)
{
	char token[16];
	struct sight theirs;

	now_ns += (RIGHTS_IDLE_S + 1) * (uint64_t)SECOND;
	for (int i = 0; i < RIGHTS_MOST; i++) {
		snprintf(token, sizeof(token), "%c%d", kind, i);
		now_ns += SECOND;
		for (int n = 0; n < 10 && enter_as(token, &theirs) == RIGHTS_LATER; n++)
			answer_all();
	}
}

TEST(whoever_has_a_stream_keeps_his_place_until_it_ends)
{
	given("nodes node/", NULL);
	expect_eq(settle(), 0);
	rights_hold(&table, &sight);
	newcomers('b');
	expect(rights_last(&table, &sight));
	newcomers('c');
	expect(rights_last(&table, &sight));
	rights_leave(&table, &sight);
	newcomers('d');
	expect(!rights_last(&table, &sight));
	end();
}
