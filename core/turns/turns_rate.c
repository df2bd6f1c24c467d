/* SPDX-License-Identifier: Apache-2.0 */
#include "core/turns/turns_rate.h"

#include "base/macros.h"

enum { PARTS = 62500 }; /* of a bucket's width, in which it counts */

struct ring {
	uint16_t *bucket;
	uint32_t size, *rest;
	uint64_t *running, width;
};

/* The buckets between the last used one and the current one are empty. */
static void advance(const struct ring *ring, uint64_t now)
{
	if (now <= *ring->running)
		return;
	if (now - *ring->running >= ring->size)
		*ring->running = now - ring->size;
	while (*ring->running < now)
		ring->bucket[++*ring->running % ring->size] = 0;
}

static void count(const struct ring *ring, uint64_t bucket, uint64_t amount)
{
	uint16_t *at = &ring->bucket[bucket % ring->size];
	uint64_t unit = ring->width / PARTS, sum;

	advance(ring, bucket);
	amount += *ring->rest;
	*ring->rest = (uint32_t)(amount % unit);
	sum = *at + amount / unit;
	*at = sum < UINT16_MAX ? (uint16_t)sum : UINT16_MAX;
}

static void put(const struct ring *ring, uint64_t from, uint64_t to, uint64_t amount)
{
	uint64_t span = to - from, width = ring->width, size = ring->size;

	/* Older amounts than the ring covers would be overwritten at once. */
	if (to / width >= size && from / width < to / width - size + 1) {
		uint64_t kept = (to / width - size + 1) * width;

		amount = (uint64_t)((double)amount * ((double)(to - kept) / (double)span));
		from = kept;
		span = to - from;
	}
	while (from < to) {
		uint64_t end = (from / width + 1) * width, piece;

		if (end > to)
			end = to;
		piece = span ? (uint64_t)((double)amount * ((double)(end - from) / (double)span))
			     : 0;
		count(ring, from / width, end == to ? amount : piece);
		amount -= piece;
		span -= end - from;
		from = end;
	}
}

void turns_rate_add(struct turns_rate *rate, uint64_t from_ns, uint64_t to_ns, uint64_t amount)
{
	if (from_ns >= to_ns || !amount)
		return;
	put(&(struct ring){rate->slots, TURNS_RATE_SLOTS, &rate->slot_rest, &rate->slot,
			   TURNS_RATE_SLOT_NS},
	    from_ns, to_ns, amount);
	put(&(struct ring){rate->seconds, TURNS_RATE_SECONDS, &rate->second_rest, &rate->second,
			   TURNS_RATE_SECOND_NS},
	    from_ns, to_ns, amount);
}

/* In parts of a bucket. */
static uint64_t sum(const uint16_t *ring, uint32_t size, uint64_t running, uint64_t now)
{
	uint64_t total = 0;

	for (uint64_t back = 1; back < size && back <= now; back++) {
		if (now - back <= running && running - (now - back) < size)
			total += ring[(now - back) % size];
	}
	return total;
}

uint64_t turns_rate_1s(const struct turns_rate *rate, uint64_t now_ns)
{
	return sum(rate->slots, TURNS_RATE_SLOTS, rate->slot, now_ns / TURNS_RATE_SLOT_NS) *
	       (TURNS_RATE_SLOT_NS / PARTS);
}

uint64_t turns_rate_60s(const struct turns_rate *rate, uint64_t now_ns)
{
	return sum(rate->seconds, TURNS_RATE_SECONDS, rate->second, now_ns / TURNS_RATE_SECOND_NS) *
	       (TURNS_RATE_SECOND_NS / PARTS);
}
