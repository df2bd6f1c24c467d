/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/dra/queue.h"

#include "base/least.h"

static const uint64_t second_ns = 1000000000;

void queue_init(struct queue *queue)
{
	list_init(&queue->waiting);
	queue->reading = 0;
}

void queue_add(struct queue *queue, struct queued *queued, uint64_t now_ns)
{
	*queued = (struct queued){.asked_ns = now_ns};
	list_append(&queue->waiting, &queued->link);
}

struct queued *queue_next(struct queue *queue)
{
	struct queued *first;

	if (queue->reading >= QUEUE_READS || list_empty(&queue->waiting))
		return NULL;
	first = list_entry(queue->waiting.next, struct queued, link);
	list_remove(&first->link);
	first->reading = true;
	queue->reading++;
	return first;
}

void queue_leave(struct queue *queue, struct queued *queued)
{
	list_remove(&queued->link);
	if (queued->reading)
		queue->reading--;
	queued->reading = false;
}

uint64_t queue_within_ns(const struct queued *queued, uint64_t now_ns)
{
	uint64_t waited_ns = now_ns - queued->asked_ns;

	if (waited_ns >= QUEUE_CALL_S * second_ns)
		return 0;
	return least(QUEUE_READ_S * second_ns, QUEUE_CALL_S * second_ns - waited_ns);
}
