/* SPDX-License-Identifier: Apache-2.0 */
/* The guests of test_residency_always.c, their blocks, and the laws that hold of them. */
#pragma once

#include "base/least.h"
#include "tests/unit/machines.h"

enum {
	STEPS = 1500,
	GUESTS = 6,
	BLOCKS = 40,
	CHUNK = 16,
};

struct block {
	uint64_t bytes; /* 0: none */
	bool on_device, in_store;
	uint64_t written, stored; /* what stands in it, there and here */
};

struct guest {
	struct turns_tenant tenant;
	struct turns_seat seat;
	struct residency_member member;
	struct block blocks[BLOCKS];
	bool there, open, draining, frozen, wants, must_stop, starved;
	bool awaits; /* its work on the device waits for the thread that asks for memory */
	uint64_t order, credit, asked, asked_ns, must_drop, writes;
};

static struct {
	struct machines m;
	struct guest guests[GUESTS];
	uint64_t capacity, budget, unclear, kept;
	unsigned admitted, stuck, evicted, asked_in_vain, restarts;
	bool honest; /* nobody freezes, dies or refuses */
} w;

/* ---- blocks ---------------------------------------------------------------------------------- */

static inline uint64_t sum_of(const struct guest *g, bool device)
{
	uint64_t sum = 0;

	for (int i = 0; i < BLOCKS; i++) {
		const struct block *b = &g->blocks[i];

		if (b->bytes && (device ? b->on_device : b->in_store))
			sum += b->bytes;
	}
	return sum;
}

static inline uint64_t sum_out(const struct guest *g)
{
	uint64_t sum = 0;

	for (int i = 0; i < BLOCKS; i++)
		sum += g->blocks[i].on_device ? 0 : g->blocks[i].bytes;
	return sum;
}

/* Copies of resident blocks, until it has no more than `most` in the store. */
static inline void forget_copies(struct guest *g, uint64_t most)
{
	for (int i = 0; i < BLOCKS && sum_of(g, false) > most; i++) {
		if (g->blocks[i].on_device)
			g->blocks[i].in_store = false;
	}
}

static inline struct block *pick(struct guest *g, bool on_device)
{
	unsigned first = (unsigned)below(BLOCKS);

	for (unsigned i = 0; i < BLOCKS; i++) {
		struct block *b = &g->blocks[(first + i) % BLOCKS];

		if (b->bytes && b->on_device == on_device)
			return b;
	}
	return NULL;
}

static inline struct block *vacant(struct guest *g)
{
	for (int i = 0; i < BLOCKS; i++) {
		if (!g->blocks[i].bytes)
			return &g->blocks[i];
	}
	return NULL;
}

static inline void allocated(struct guest *g, uint64_t bytes)
{
	struct block *b;

	while (bytes && (b = vacant(g))) {
		*b = (struct block){.bytes = least(bytes, 1 + below(CHUNK)), .on_device = true};
		b->written = ++g->writes;
		bytes -= b->bytes;
	}
	/* No place for another one: freed again. */
	if (bytes)
		residency_free(&g->member, bytes, 0, w.m.now);
}

/* ---- the machines' actions ------------------------------------------------------------------- */

static inline void obey_turns(const struct turns_action *a)
{
	struct guest *g = a->seat->owner;

	if (a->verb == TURNS_OPEN) {
		/* Law 11 of core/turns/turns.h: but for a gate that could not be closed. */
		expect(g->member.place == RESIDENCY_IN ||
		       (g->member.place == RESIDENCY_STOPPING && g->tenant.bond != TURNS_FREE));
		g->open = true;
		g->draining = false;
	} else if (a->verb == TURNS_CLOSE) {
		g->open = false;
		g->draining = true;
	} else if (a->verb == TURNS_LATE) {
		turns_late(a->seat, g->awaits && g->asked, w.m.now);
	}
}

static inline void obey(const struct residency_action *a)
{
	struct guest *g = a->member->owner;

	switch (a->verb) {
	case RESIDENCY_EVICT:
		expect(!g->open && !g->draining && !g->must_stop);
		g->order += a->bytes;
		break;
	case RESIDENCY_STOP:
		g->must_stop = true;
		break;
	case RESIDENCY_CREDIT:
		expect(!g->must_stop);
		g->credit += a->bytes;
		break;
	case RESIDENCY_GRANT:
		expect_eq(a->bytes, g->asked);
		g->asked = 0;
		allocated(g, a->bytes);
		break;
	case RESIDENCY_DROP:
		g->must_drop += a->bytes;
		break;
	case RESIDENCY_ADMITTED:
		w.admitted++;
		break;
	case RESIDENCY_STUCK:
		expect(!w.honest || g->awaits);
		w.stuck++;
		break;
	}
}

static const struct machines_guests guests = {obey_turns, obey, NULL};

static inline void pump(void)
{
	machines_pump(&w.m, &guests);
}

/* ---- laws ------------------------------------------------------------------------------------ */

static inline void check_guest(const struct guest *g)
{
	const struct residency_member *m = &g->member;

	expect_eq(m->resident_bytes, sum_of(g, true));
	expect_eq(m->out_bytes, sum_out(g));
	expect(sum_of(g, false) <= m->store_bytes);
	expect(m->out_bytes <= m->store_bytes);
	expect(m->store_bytes <= m->quota_bytes);
	expect(m->resident_bytes + m->out_bytes <= w.capacity);
	expect(m->credit_bytes <= m->out_bytes);
	expect(m->ordered_bytes <= m->resident_bytes);
	expect(m->place == RESIDENCY_IN ? !m->out_bytes : g->seat.barred);
	expect(!g->open || !m->out_bytes);
	for (int i = 0; i < BLOCKS; i++) {
		const struct block *b = &g->blocks[i];

		if (!b->bytes)
			continue;
		expect(b->on_device || b->in_store);
		expect(b->on_device || b->stored == b->written);
	}
}

static inline void check(void)
{
	uint64_t resident = 0, credit = 0, missing = 0, used = w.unclear;

	for (int i = 0; i < GUESTS; i++) {
		const struct guest *g = &w.guests[i];

		if (!g->there)
			continue;
		check_guest(g);
		resident += g->member.resident_bytes;
		credit += g->member.credit_bytes;
		used += g->member.store_bytes;
		missing += g->member.missing_bytes;
	}
	expect_eq(resident, w.m.r.resident_bytes);
	expect_eq(credit, w.m.r.credit_bytes);
	expect_eq(used, w.m.r.used_bytes);
	expect_eq(missing, w.m.r.missing_bytes);
	expect(used <= w.budget);
	expect(resident + credit <= w.capacity);
}
