/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/dra/queue.h"

#include <string.h>

#include "base/least.h"

static const uint64_t second_ns = 1000000000;

void queue_init(struct queue *queue)
{
	list_init(&queue->waiting);
	queue->reads = queue->rounds = 0;
	queue->came = false;
}

void queue_add(struct queue *queue, struct queued *queued, const char *namespace, uint64_t now_ns)
{
	*queued = (struct queued){.asked_ns = now_ns, .namespace = namespace};
	list_append(&queue->waiting, &queued->link);
	queue->came = true;
}

bool queue_grows(struct queue *queue)
{
	bool grows = queue->came && queue->rounds < QUEUE_ROUNDS;

	queue->came = false;
	queue->rounds = grows ? queue->rounds + 1 : 0;
	return grows;
}

static bool is_beside(const struct queued *queued, const struct queued *first)
{
	return !queued->alone && strcmp(queued->namespace, first->namespace) == 0;
}

static uint32_t count_beside(const struct queue *queue, const struct queued *first)
{
	uint32_t count = 0;

	list_for_each(link, (struct list *)&queue->waiting) count +=
		is_beside(list_entry(link, struct queued, link), first);
	return count;
}

static void take_into(struct queue_batch *batch, struct queued *queued)
{
	list_remove(&queued->link);
	list_append(&batch->claims, &queued->link);
	queued->batch = batch;
	batch->count++;
}

bool queue_next(struct queue *queue, struct queue_batch *batch)
{
	struct queued *first;

	if (queue->reads >= QUEUE_READS || list_empty(&queue->waiting))
		return false;
	list_init(&batch->claims);
	batch->count = 0;
	queue->reads++;
	first = list_entry(queue->waiting.next, struct queued, link);
	if (first->alone || count_beside(queue, first) < QUEUE_TOGETHER) {
		take_into(batch, first);
		return true;
	}
	list_for_each(link, &queue->waiting)
	{
		struct queued *queued = list_entry(link, struct queued, link);

		if (is_beside(queued, first) && batch->count < QUEUE_TOGETHER_MOST)
			take_into(batch, queued);
	}
	return true;
}

void queue_leave(struct queued *queued)
{
	list_remove(&queued->link);
	if (queued->batch)
		queued->batch->count--;
	queued->batch = NULL;
}

void queue_end(struct queue *queue, struct queue_batch *batch)
{
	queue->reads--;
	/* From the last one on, so that they keep their order. */
	while (batch->count) {
		struct queued *queued = list_entry(batch->claims.prev, struct queued, link);

		queue_leave(queued);
		queued->alone = true;
		list_prepend(&queue->waiting, &queued->link);
	}
}

uint64_t queue_within_ns(const struct queued *queued, uint64_t now_ns)
{
	uint64_t waited_ns = now_ns - queued->asked_ns;

	if (waited_ns >= QUEUE_CALL_S * second_ns)
		return 0;
	return least(QUEUE_READ_S * second_ns, QUEUE_CALL_S * second_ns - waited_ns);
}
