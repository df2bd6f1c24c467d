/* SPDX-License-Identifier: Apache-2.0 */
/* The fields of a tenant's share, as they were written. */
#include "node/tenants/share_text.h"

#include "tests/test.h"

TEST(a_fields_text_is_found_and_others_are_at_their_default)
{
	struct share_text *texts = NULL;

	expect(!share_text_of(texts, 0));
	expect_eq(share_text_add(&texts, 3, "200"), 0);
	expect_eq(share_text_add(&texts, 0, "4G"), 0);
	expect_str(share_text_of(texts, 0), "4G");
	expect_str(share_text_of(texts, 3), "200");
	expect(!share_text_of(texts, 1));
	share_texts_free(texts);
}

TEST(the_fields_are_in_their_order_whenever_they_were_set)
{
	static const uint32_t set[] = {5, 1, 9, 0, 4};
	static const uint32_t order[] = {0, 1, 4, 5, 9};
	struct share_text *texts = NULL;
	uint32_t count = 0;

	for (size_t i = 0; i < ARRAY_SIZE(set); i++)
		expect_eq(share_text_add(&texts, set[i], ""), 0);
	for (const struct share_text *at = texts; at; at = at->next)
		expect_eq(at->field, order[count++]);
	expect_eq(count, ARRAY_SIZE(order));
	share_texts_free(texts);
}
