/* SPDX-License-Identifier: Apache-2.0 */
#include "core/turns_rate.h"

#include "base/macros.h"

/* The buckets between the last used one and the current one are empty. */
static void advance(uint32_t *ring, uint32_t size, uint64_t *running, uint64_t now)
{
	if (now <= *running)
		return;
	if (now - *running >= size)
		*running = now - size;
	while (*running < now)
		ring[++*running % size] = 0;
}

static void put(uint32_t *ring, uint32_t size, uint64_t *running, uint64_t width, uint64_t from,
		uint64_t to, uint64_t amount)
{
	uint64_t span = to - from;

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
		advance(ring, size, running, from / width);
		ring[from / width % size] += (uint32_t)(end == to ? amount : piece);
		amount -= piece;
		span -= end - from;
		from = end;
	}
}

void turns_rate_add(struct turns_rate *rate, uint64_t from_ns, uint64_t to_ns, uint64_t amount)
{
	if (from_ns >= to_ns || !amount)
		return;
	put(rate->slots, TURNS_RATE_SLOTS, &rate->slot, TURNS_RATE_SLOT_NS, from_ns, to_ns, amount);
	put(rate->seconds, TURNS_RATE_SECONDS, &rate->second, TURNS_RATE_SECOND_NS, from_ns, to_ns,
	    amount);
}

static uint64_t sum(const uint32_t *ring, uint32_t size, uint64_t running, uint64_t now)
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
	return sum(rate->slots, TURNS_RATE_SLOTS, rate->slot, now_ns / TURNS_RATE_SLOT_NS);
}

uint64_t turns_rate_60s(const struct turns_rate *rate, uint64_t now_ns)
{
	return sum(rate->seconds, TURNS_RATE_SECONDS, rate->second, now_ns / TURNS_RATE_SECOND_NS);
}
