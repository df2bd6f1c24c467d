/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/time/lasts.h"

#include "tests/test.h"

static const uint64_t ms = 1000000, start = 5000000000;

TEST(work_that_ends_long_after_its_thread_went_on_ends_by_itself)
{
	struct lasts l = {0};

	expect(!lasts_by_itself(&l));
	expect(lasts_ended(&l, start, 500 * ms, start + 100 * ms));
	expect(lasts_by_itself(&l));
}

TEST(work_that_ends_when_a_thread_was_let_in_may_have_waited_for_it)
{
	struct lasts l = {0};

	/* However long it took until then. */
	expect(!lasts_ended(&l, start, 500 * ms, start + 499 * ms));
	expect(!lasts_ended(&l, start, 5000 * ms, start + 4951 * ms));
	expect(!lasts_ended(&l, start, 10 * ms, start));
	/* Or somebody submitted something that nobody saw. */
	expect(!lasts_ended(&l, start, 500 * ms, UINT64_MAX));
	expect(!lasts_by_itself(&l));
}

static unsigned proofs_until_believed(struct lasts *l)
{
	unsigned proofs = 0;

	while (!lasts_by_itself(l) && proofs < 1000) {
		expect(lasts_ended(l, start, 500 * ms, start));
		proofs++;
	}
	return proofs;
}

TEST(a_tenant_that_was_waited_for_in_vain_is_believed_less_and_less)
{
	static const unsigned wanted[] = {1, 2, 6, 22, 65, 65};
	struct lasts l = {0};

	for (unsigned i = 0; i < ARRAY_SIZE(wanted); i++) {
		expect_eq(proofs_until_believed(&l), wanted[i]);
		lasts_in_vain(&l, false);
		expect(!lasts_by_itself(&l));
	}
}

TEST(a_wait_in_vain_for_work_of_unknown_length_proves_nothing)
{
	struct lasts l = {0};

	for (unsigned i = 0; i < 100; i++)
		lasts_in_vain(&l, false);
	expect_eq(proofs_until_believed(&l), 1);
}

TEST(work_that_was_presumed_to_end_by_itself_is_not_once_it_was_waited_for_in_vain)
{
	struct lasts l = {0};

	expect(lasts_presumably(&l));
	expect_eq(proofs_until_believed(&l), 1);
	expect(lasts_presumably(&l));
	lasts_in_vain(&l, true);
	expect(!lasts_presumably(&l));
	expect_eq(proofs_until_believed(&l), 2);
}
