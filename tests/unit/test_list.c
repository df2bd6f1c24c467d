/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"
#include "tests/test.h"

struct item {
	int value;
	struct list link;
};

TEST(a_list_keeps_the_order_of_appending)
{
	struct item items[3] = {{.value = 1}, {.value = 2}, {.value = 3}};
	struct list head;
	int seen = 0;

	list_init(&head);
	for (size_t i = 0; i < ARRAY_SIZE(items); i++)
		list_append(&head, &items[i].link);
	list_for_each(link, &head) seen = seen * 10 + list_entry(link, struct item, link)->value;
	expect_eq(seen, 123);
}

TEST(an_entry_may_be_removed_while_walking_and_twice)
{
	struct item items[3] = {{.value = 1}, {.value = 2}, {.value = 3}};
	struct list head;

	list_init(&head);
	for (size_t i = 0; i < ARRAY_SIZE(items); i++)
		list_append(&head, &items[i].link);
	list_for_each(link, &head) list_remove(link);
	expect(list_empty(&head));
	expect(!list_linked(&items[0].link));
	list_remove(&items[0].link);
	expect(list_empty(&head));
}
