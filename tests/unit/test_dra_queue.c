/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/dra/queue.h"
#include "tests/test.h"

#define SECOND UINT64_C(1000000000)

enum { CLAIMS = 200 };

static struct queue queue;
static struct queued queued[CLAIMS];

static void begin(size_t count)
{
	queue_init(&queue);
	for (size_t i = 0; i < count; i++)
		queue_add(&queue, &queued[i], (100 + i) * SECOND);
}

static size_t next(void)
{
	struct queued *found = queue_next(&queue);

	return found ? (size_t)(found - queued) : CLAIMS;
}

TEST(a_few_at_a_time_are_read_in_the_order_of_asking)
{
	begin(CLAIMS);
	for (size_t i = 0; i < QUEUE_READS; i++)
		expect_eq(next(), i);
	expect_eq(next(), CLAIMS);
	/* Whichever ends: here, those that were read first go on. */
	for (size_t i = QUEUE_READS; i < CLAIMS; i++) {
		queue_leave(&queue, &queued[i - 1]);
		expect_eq(next(), i);
		expect_eq(next(), CLAIMS);
	}
}

TEST(one_that_nobody_wants_any_more_is_passed_over)
{
	begin(QUEUE_READS + 3);
	for (size_t i = 0; i < QUEUE_READS; i++)
		expect_eq(next(), i);
	queue_leave(&queue, &queued[QUEUE_READS]);
	queue_leave(&queue, &queued[QUEUE_READS]);
	expect_eq(next(), CLAIMS);
	queue_leave(&queue, &queued[2]);
	queue_leave(&queue, &queued[2]); /* it makes room once */
	expect_eq(next(), QUEUE_READS + 1);
	expect_eq(next(), CLAIMS);
	/* It can come again, as the last. */
	queue_add(&queue, &queued[2], 900 * SECOND);
	queue_leave(&queue, &queued[0]);
	queue_leave(&queue, &queued[1]);
	expect_eq(next(), QUEUE_READS + 2);
	expect_eq(next(), 2);
}

TEST(one_that_was_never_asked_for_makes_no_room)
{
	struct queued never = {.reading = false};

	begin(QUEUE_READS + 1);
	for (size_t i = 0; i < QUEUE_READS; i++)
		expect_eq(next(), i);
	queue_leave(&queue, &never);
	expect_eq(next(), CLAIMS);
}

TEST(reading_has_30_s_from_its_beginning_and_no_more_than_the_kubelet_waits)
{
	begin(1);
	expect_eq(queue_within_ns(&queued[0], 100 * SECOND), 30 * SECOND);
	expect_eq(queue_within_ns(&queued[0], 114 * SECOND), 30 * SECOND);
	expect_eq(queue_within_ns(&queued[0], 114 * SECOND + 1), 30 * SECOND - 1);
	expect_eq(queue_within_ns(&queued[0], 144 * SECOND - 1), 1);
	expect_eq(queue_within_ns(&queued[0], 144 * SECOND), 0);
	expect_eq(queue_within_ns(&queued[0], 500 * SECOND), 0);
}
