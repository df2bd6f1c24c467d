/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/history.h"
#include "tests/test.h"

TEST(the_newest_look_is_0_back_and_unseen_figures_stay_empty)
{
	owned(history_free) struct history history = {0};

	for (uint16_t i = 0; i < 3; i++) {
		history_begin(&history);
		history_add(&history, 7, 0, (uint16_t)(100 + i));
		history_end(&history);
	}
	assert_int_equal(history_at(history_find(&history, 7, 0), 0), 102);
	assert_int_equal(history_at(history_find(&history, 7, 0), 2), 100);
	assert_int_equal(history_at(history_find(&history, 7, 0), 3), HISTORY_UNSAID);
	assert_null(history_find(&history, 7, 1));
	assert_int_equal(history_at(NULL, 0), HISTORY_UNSAID);
}

TEST(only_the_last_looks_are_kept)
{
	owned(history_free) struct history history = {0};

	for (uint32_t i = 0; i < 2 * HISTORY_STEPS + 5; i++) {
		history_begin(&history);
		history_add(&history, 1, 0, (uint16_t)i);
		history_end(&history);
	}
	assert_int_equal(history_at(history_find(&history, 1, 0), 0), 2 * HISTORY_STEPS + 4);
	assert_int_equal(history_at(history_find(&history, 1, 0), HISTORY_STEPS - 1),
			 HISTORY_STEPS + 5);
	assert_int_equal(history_at(history_find(&history, 1, 0), HISTORY_STEPS), HISTORY_UNSAID);
}

TEST(a_tenant_that_has_ended_is_forgotten_and_the_others_keep_their_figures)
{
	owned(history_free) struct history history = {0};

	history_begin(&history);
	for (uint32_t tenant = 1; tenant <= 100; tenant++)
		history_add(&history, tenant, tenant % 3, (uint16_t)tenant);
	history_end(&history);
	history_begin(&history);
	for (uint32_t tenant = 100; tenant >= 2; tenant -= 2) /* in another order */
		history_add(&history, tenant, tenant % 3, 1000);
	history_end(&history);
	assert_int_equal(history.count, 50);
	for (uint32_t tenant = 1; tenant <= 100; tenant++) {
		const struct history_track *track = history_find(&history, tenant, tenant % 3);

		assert_int_equal(track != NULL, tenant % 2 == 0);
		assert_int_equal(history_at(track, 1), track ? tenant : HISTORY_UNSAID);
	}
	/* A tenant that comes back begins anew. */
	history_begin(&history);
	history_add(&history, 1, 1, 5);
	history_end(&history);
	assert_int_equal(history.count, 1);
	assert_int_equal(history_at(history_find(&history, 1, 1), 1), HISTORY_UNSAID);
}
