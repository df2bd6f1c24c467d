/* SPDX-License-Identifier: Apache-2.0 */
#include "core/line.h"

#include <string.h>

#include "tests/test.h"

enum { MEMBERS = 20, MOST = 50, GRACE = 10 };

static struct line_member member[MEMBERS], *heap[MEMBERS];
static struct line line;

static void given(uint64_t grace)
{
	memset(member, 0, sizeof(member));
	line = (struct line){.heap = heap, .room = MEMBERS, .grace = grace};
}

TEST(the_member_that_was_given_least_is_served_next)
{
	given(0);
	for (int i = 0; i < 3; i++)
		line_add(&line, &member[i]);
	line_add(&line, &member[0]); /* harmless */
	expect(line_next(&line) == &member[0]);
	line_again(&line, &member[0], 5);
	expect(line_next(&line) == &member[1]);
	line_again(&line, &member[1], 3);
	expect(line_next(&line) == &member[2]);
	line_again(&line, &member[2], 4);
	expect(line_next(&line) == &member[1]);
	line_remove(&line, &member[2]);
	line_remove(&line, &member[2]);
	expect(line_next(&line) == &member[0]);
	expect(line_next(&line) == NULL);
}

TEST(a_member_that_waits_for_its_answers_goes_before_others)
{
	given(GRACE);
	for (int i = 1; i < MEMBERS; i++)
		line_add(&line, &member[i]);
	for (int round = 0; round < 1000; round++) {
		struct line_member *other;

		/* It stood aside since its last answer: at most who is equal is served first. */
		line_add(&line, &member[0]);
		for (int before = 0; (other = line_next(&line)) != &member[0]; before++) {
			expect(before < MEMBERS);
			line_again(&line, other, 1 + test_random_below(GRACE));
		}
		line_charge(&member[0], 1 + test_random_below(GRACE));
		other = line_next(&line);
		line_again(&line, other, 1 + test_random_below(GRACE));
	}
}

static void expect_least(const struct line_member *served)
{
	expect_eq(served->place, 0);
	for (int i = 0; i < MEMBERS; i++) {
		if (member[i].place)
			expect(served->charged < member[i].charged ||
			       (served->charged == member[i].charged &&
				served->came < member[i].came));
	}
}

TEST(the_laws_hold_after_any_history)
{
	for (unsigned round = 0; round < test_rounds(200); round++) {
		uint64_t clock = 0;

		given(test_random_below(2) * GRACE);
		/* The first two never stand aside. */
		line_add(&line, &member[0]);
		line_add(&line, &member[1]);
		for (int step = 0; step < 2000; step++) {
			struct line_member *one = &member[2 + test_random_below(MEMBERS - 2)];
			struct line_member *served;
			uint64_t cost = test_random_below(MOST + 1), gap;

			if (test_random_below(3) == 0)
				line_add(&line, one);
			if (test_random_below(9) == 0)
				line_remove(&line, one);
			served = line_next(&line);
			expect(served != NULL);
			expect_least(served);
			expect(served->charged >= clock);
			clock = served->charged;
			if (served > &member[1] && test_random_below(2))
				line_charge(served, cost);
			else
				line_again(&line, served, cost);
			gap = member[0].charged > member[1].charged
				      ? member[0].charged - member[1].charged
				      : member[1].charged - member[0].charged;
			expect(gap <= MOST);
		}
	}
}
