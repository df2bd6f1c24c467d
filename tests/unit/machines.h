/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For random histories: core/turns and core/residency of one device, on a clock that the history
 * moves. A history's own guests obey the machines' orders.
 */
#pragma once

#include "core/residency/residency.h"
#include "tests/test.h"

#define MS 1000000ull

struct machines {
	struct turns turns;
	struct turns_device device;
	struct residency r;
	uint64_t now;
};

/* The guests that obey their orders. */
struct machines_guests {
	void (*turn)(const struct turns_action *action);
	void (*move)(const struct residency_action *action);
	bool (*waits)(void); /* is core/residency to order nothing now? NULL: never */
};

static inline void machines_begin(struct machines *m, const struct residency_tuning *tuning,
				  uint64_t capacity, uint64_t budget)
{
	turns_init(&m->turns, &turns_usual);
	turns_device_init(&m->turns, &m->device, 0);
	residency_init(&m->r, tuning, capacity, budget);
}

/* The usual tuning, for chunks of a few bytes and histories of some minutes. */
static inline struct residency_tuning machines_tuning(uint64_t chunk_bytes)
{
	struct residency_tuning tuning = residency_usual;

	tuning.chunk_bytes = chunk_bytes;
	tuning.window_bytes = 4 * chunk_bytes;
	tuning.longest_ns = 3000 * MS;
	return tuning;
}

/* Every order is obeyed; an order of core/turns goes first. */
static inline void machines_pump(struct machines *m, const struct machines_guests *guests)
{
	struct turns_action turn;
	struct residency_action move;

	for (;;) {
		while (turns_next(&m->turns, &turn))
			guests->turn(&turn);
		if (!(guests->waits && guests->waits()) && residency_next(&m->r, m->now, &move))
			guests->move(&move);
		else if (turns_next(&m->turns, &turn))
			guests->turn(&turn);
		else
			return;
	}
}

static inline void machines_pass(struct machines *m, uint64_t ns,
				 const struct machines_guests *guests)
{
	m->now += ns;
	if (turns_deadline(&m->turns) <= m->now)
		turns_tick(&m->turns, m->now);
	if (residency_deadline(&m->r) <= m->now)
		residency_tick(&m->r, m->now);
	machines_pump(m, guests);
}

/* A tenant begins or ends to want the device. member: NULL, if nothing of it moves. */
static inline void machines_want(const struct machines *m, struct turns_seat *seat,
				 struct residency_member *member, bool wants)
{
	if (wants)
		turns_wants(seat, m->now);
	else
		turns_idle(seat, m->now);
	if (member && wants)
		residency_wants(member, m->now);
	else if (member)
		residency_idle(member, m->now);
}

static inline void machines_usual_share(struct turns_share *ret)
{
	struct share usual;

	share_init(&usual);
	turns_share_of(&usual, ret);
}

static inline uint64_t below(uint64_t bound)
{
	return test_random_below(bound);
}

/* After an event of a random history: the machines' orders are obeyed, a moment passes, now and
 * then a long one, and the laws are checked. */
static inline void machines_go_on(struct machines *m, const struct machines_guests *guests,
				  void (*check)(void))
{
	machines_pump(m, guests);
	machines_pass(m, below(4) ? below(2 * MS) : below(300 * MS), guests);
	check();
}
