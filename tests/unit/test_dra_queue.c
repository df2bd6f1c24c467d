/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/dra/queue.h"
#include "tests/test.h"

#define SECOND UINT64_C(1000000000)

enum { CLAIMS = 200 };

static struct queue queue;
static struct queued queued[CLAIMS];
static struct queue_batch batch[CLAIMS];

/* One in `namespaces` of them is in the first namespace. */
static void begin(size_t count, size_t namespaces)
{
	static const char *const names[] = {"a", "b", "c", "d"};

	queue_init(&queue);
	for (size_t i = 0; i < count; i++)
		queue_add(&queue, &queued[i], names[i % namespaces], (100 + i) * SECOND);
}

/* The batch's claims. */
static void expect_batch(const struct queue_batch *found, size_t first, size_t step, size_t count)
{
	size_t i = first;

	expect_eq(found->count, count);
	list_for_each(link, (struct list *)&found->claims)
	{
		expect_eq((size_t)(list_entry(link, struct queued, link) - queued), i);
		i += step;
	}
	expect_eq(i, first + step * count);
}

TEST(those_of_a_namespace_are_read_together_in_the_order_of_asking)
{
	begin(20, 2);
	expect(queue_next(&queue, &batch[0]));
	expect_batch(&batch[0], 0, 2, 10);
	queue_add(&queue, &queued[20], "a", 120 * SECOND);
	expect(queue_next(&queue, &batch[1]));
	expect_batch(&batch[1], 1, 2, 10);
	/* It came later: what was read before might not know it. */
	expect(queue_next(&queue, &batch[2]));
	expect_batch(&batch[2], 20, 1, 1);
	expect(!queue_next(&queue, &batch[3]));
}

TEST(few_are_read_by_themselves)
{
	begin(QUEUE_TOGETHER - 1, 1);
	for (size_t i = 0; i < QUEUE_TOGETHER - 1; i++) {
		expect(queue_next(&queue, &batch[i]));
		expect_batch(&batch[i], i, 1, 1);
	}
	expect(!queue_next(&queue, &batch[QUEUE_TOGETHER]));
	begin(QUEUE_TOGETHER, 1);
	expect(queue_next(&queue, &batch[0]));
	expect_batch(&batch[0], 0, 1, QUEUE_TOGETHER);
}

TEST(a_few_requests_are_under_way_at_a_time)
{
	queue_init(&queue);
	for (size_t i = 0; i < QUEUE_READS; i++) {
		queue_add(&queue, &queued[i], "a", i);
		expect(queue_next(&queue, &batch[i]));
	}
	queue_add(&queue, &queued[QUEUE_READS], "a", QUEUE_READS);
	expect(!queue_next(&queue, &batch[QUEUE_READS]));
	queue_leave(&queued[3]);
	expect(!queue_next(&queue, &batch[QUEUE_READS])); /* the request has not ended yet */
	queue_end(&queue, &batch[3]);
	expect(queue_next(&queue, &batch[QUEUE_READS]));
	expect_batch(&batch[QUEUE_READS], QUEUE_READS, 1, 1);
}

TEST(a_claim_that_a_list_lacks_is_read_alone_and_before_later_ones)
{
	begin(6, 1);
	expect(queue_next(&queue, &batch[0]));
	for (size_t i = 6; i < 10; i++)
		queue_add(&queue, &queued[i], "a", (100 + i) * SECOND);
	for (size_t i = 0; i < 6; i += 2)
		queue_leave(&queued[i]);
	queue_end(&queue, &batch[0]);
	for (size_t i = 1; i < 6; i += 2) {
		expect(queue_next(&queue, &batch[i]));
		expect_batch(&batch[i], i, 1, 1);
	}
	expect(queue_next(&queue, &batch[6]));
	expect_batch(&batch[6], 6, 1, 4);
	expect(!queue_next(&queue, &batch[7]));
}

TEST(a_list_has_no_more_than_a_bound)
{
	static struct queued many[QUEUE_TOGETHER_MOST + 10];

	queue_init(&queue);
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		queue_add(&queue, &many[i], "a", i);
	expect(queue_next(&queue, &batch[0]));
	expect_eq(batch[0].count, QUEUE_TOGETHER_MOST);
	expect(queue_next(&queue, &batch[1]));
	expect_eq(batch[1].count, 10);
	expect(!queue_next(&queue, &batch[2]));
}

TEST(a_claim_that_is_not_wanted_any_more_is_passed_over)
{
	struct queued never = {.alone = false};

	begin(6, 1);
	queue_leave(&queued[0]);
	queue_leave(&queued[0]);
	queue_leave(&never);
	expect(queue_next(&queue, &batch[0]));
	expect_batch(&batch[0], 1, 1, 5);
	queue_leave(&queued[5]);
	queue_leave(&queued[5]);
	expect_eq(batch[0].count, 4);
	/* It can come again, as the last. */
	queue_add(&queue, &queued[5], "a", 900 * SECOND);
	queue_end(&queue, &batch[0]);
	for (size_t i = 1; i < 6; i++) {
		expect(queue_next(&queue, &batch[i]));
		expect_batch(&batch[i], i, 1, 1);
	}
}

TEST(reading_has_30_s_from_its_beginning_and_no_more_than_the_kubelet_waits)
{
	begin(1, 1);
	expect_eq(queue_within_ns(&queued[0], 100 * SECOND), 30 * SECOND);
	expect_eq(queue_within_ns(&queued[0], 114 * SECOND), 30 * SECOND);
	expect_eq(queue_within_ns(&queued[0], 114 * SECOND + 1), 30 * SECOND - 1);
	expect_eq(queue_within_ns(&queued[0], 144 * SECOND - 1), 1);
	expect_eq(queue_within_ns(&queued[0], 144 * SECOND), 0);
	expect_eq(queue_within_ns(&queued[0], 500 * SECOND), 0);
}

TEST(a_burst_is_read_when_a_round_brings_no_more_of_it_or_after_so_many)
{
	begin(1, 1);
	expect(queue_grows(&queue));
	queue_add(&queue, &queued[1], "a", 101 * SECOND);
	expect(queue_grows(&queue));
	expect(!queue_grows(&queue));
	expect(!queue_grows(&queue));
	for (size_t i = 0; i < QUEUE_ROUNDS; i++) {
		queue_add(&queue, &queued[2 + i], "a", 102 * SECOND);
		expect(queue_grows(&queue));
	}
	queue_add(&queue, &queued[2 + QUEUE_ROUNDS], "a", 102 * SECOND);
	expect(!queue_grows(&queue));
	queue_add(&queue, &queued[3 + QUEUE_ROUNDS], "a", 102 * SECOND);
	expect(queue_grows(&queue));
}
