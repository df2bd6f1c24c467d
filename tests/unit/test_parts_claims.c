/* SPDX-License-Identifier: Apache-2.0 */
/* Parts that are made for claims, and the places that are published for them. */
#include <string.h>

#include "tests/unit/parts_around.h"

/* With the key `mete`, and claims. */
static void begin_claims(void)
{
	around_begin(CONFIG_MIG_NONE, NULL);
	config.has_mete = config.dra = config.makes_parts = true;
	others.unread = -ENOENT; /* nobody has a slot */
	around_start();
}

struct claimed {
	struct parts_ask ask;
	uint32_t done;
	char problem[200];
};

static void on_done(struct parts_ask *ask, const char *problem)
{
	struct claimed *c = container_of(ask, struct claimed, ask);

	c->done++;
	snprintf(c->problem, sizeof(c->problem), "%s", problem ? problem : "");
}

static void want(struct claimed *c, const char *id)
{
	*c = (struct claimed){.ask = {.count = 1, .done = on_done}};
	snprintf(c->ask.id[0], sizeof(c->ask.id[0]), "%s", id);
	parts_want(parts, &c->ask);
}

TEST(a_claims_part_stays_until_the_claim_is_gone)
{
	struct claimed claim;

	begin_claims();
	want(&claim, ID "2");
	around_finish();
	expect_eq(claim.done, 0); /* it is no device of meted yet */
	around_divided();
	expect(claim.done == 1 && !*claim.problem);
	others.claimed = "gpu-1-1g-10gb-2";
	others.now_ns += 100 * S;
	around_do_look();
	expect_eq(around_there(), 1);
	expect_str(parts_place_of(parts, 0), ID "2");
	others.claimed = NULL;
	around_do_look();
	expect_eq(around_there(), 0);
	around_end();
}

TEST(a_claim_that_is_gone_at_once_leaves_its_part_to_the_next_check)
{
	struct claimed claim;

	begin_claims();
	want(&claim, ID "2");
	around_finish();
	around_divided();
	expect_eq(around_there(), 1);
	around_do_look(); /* no time has passed: the kubelet writes nothing of claims */
	expect_eq(around_there(), 0);
	around_end();
}

TEST(a_record_of_the_kubelet_that_is_there_and_cannot_be_read_keeps_all_parts)
{
	struct claimed claim;

	begin_claims();
	want(&claim, ID "2");
	around_finish();
	around_divided();
	others.unread = -EINVAL;
	others.now_ns += 100 * S;
	around_do_look();
	expect_eq(around_there(), 1);
	around_end();
}

TEST(a_claim_that_is_not_wanted_any_more_leaves_nothing)
{
	struct claimed first, second;

	begin_claims();
	want(&first, ID "0");
	want(&second, ID "1");
	parts_unwant(&first.ask);
	parts_unwant(&first.ask);
	around_finish();
	around_finish();
	around_divided();
	expect(first.done == 0 && second.done == 1 && !*second.problem);
	others.claimed = "gpu-1-1g-10gb-1";
	around_do_look();
	expect_eq(around_there(), 1);
	around_end();
}

TEST(a_part_that_is_not_made_is_reported_to_the_claim)
{
	struct claimed claim;

	begin_claims();
	mig_driver.broken = 4;
	want(&claim, ID "4");
	around_finish();
	expect(claim.done == 1 && strstr(claim.problem, "no compute instance"));
	around_end();
}

TEST(a_claim_that_waits_for_a_part_is_told_that_meted_ends)
{
	struct claimed claim;

	begin_claims();
	want(&claim, ID "4");
	parts_close(parts);
	expect(claim.done == 1 && strstr(claim.problem, "stopping"));
	around_finish();
	parts = NULL;
	around_end();
}

static void list_place(void *owner, const struct parts_place *at)
{
	char *said = owner;

	snprintf(said + strlen(said), 64, "%s%u%s", *said ? " " : "", at->at.start,
		 at->device >= 0 ? "!" : "");
}

static const char *published(void)
{
	static char said[256];

	*said = '\0';
	parts_each_place(parts, list_place, said);
	return said;
}

TEST(places_are_published_where_nothing_of_others_lies)
{
	struct claimed claim;

	begin_claims();
	expect_str(published(), "0 1 2 3 4 5 6");
	/* A part of ours changes nothing, whichever claim has it. */
	want(&claim, ID "2");
	around_finish();
	around_divided();
	others.claimed = "gpu-1-1g-10gb-2";
	expect_str(published(), "0 1 2! 3 4 5 6");
	/* One that somebody else makes does. */
	expect_eq(mig_make(&mig_driver, &mig_driver.gpu, 0, 5, NULL), 0);
	around_do_look();
	around_divided();
	expect_str(published(), "0 1 2! 3 4 6");
	around_end();
}
