/* SPDX-License-Identifier: Apache-2.0 */
/* For the examples of core/residency: a device and four tenants, whose guests obey at once. */
#pragma once

#include "core/residency/residency.h"

#include "tests/test.h"

#define MS  1000000ull
#define MIB (1024ull * 1024)
#define GIB (1024ull * MIB)

enum { MEMBERS = 4 };

static struct {
	struct turns turns;
	struct turns_device device;
	struct residency r;
	struct turns_tenant tenants[MEMBERS];
	struct turns_seat seats[MEMBERS];
	struct residency_member m[MEMBERS];
	uint64_t evict[MEMBERS], credit[MEMBERS], granted[MEMBERS], drop[MEMBERS];
	bool open[MEMBERS], stop[MEMBERS], stuck[MEMBERS], lazy[MEMBERS];
	bool stands[MEMBERS]; /* a thread of it waits at the gate */
	uint64_t now;
} w;

static inline void obey_turn(const struct turns_action *a)
{
	size_t i = (size_t)(a->seat - w.seats);

	if (a->verb == TURNS_OPEN)
		w.open[i] = true;
	if (a->verb == TURNS_LATE)
		turns_late(a->seat, w.stands[i], w.now);
	if (a->verb != TURNS_CLOSE)
		return;
	w.open[i] = false;
	if (!w.lazy[i])
		turns_drained(a->seat, w.m[i].wants, w.now);
}

static inline void obey(const struct residency_action *a)
{
	size_t i = (size_t)(a->member - w.m);

	w.evict[i] += a->verb == RESIDENCY_EVICT ? a->bytes : 0;
	w.credit[i] += a->verb == RESIDENCY_CREDIT ? a->bytes : 0;
	w.granted[i] += a->verb == RESIDENCY_GRANT ? a->bytes : 0;
	w.drop[i] += a->verb == RESIDENCY_DROP ? a->bytes : 0;
	w.stop[i] |= a->verb == RESIDENCY_STOP;
	w.stuck[i] |= a->verb == RESIDENCY_STUCK;
}

static inline void pump(void)
{
	struct turns_action turn;
	struct residency_action move;

	for (;;) {
		while (turns_next(&w.turns, &turn))
			obey_turn(&turn);
		if (residency_next(&w.r, w.now, &move))
			obey(&move);
		else if (turns_next(&w.turns, &turn))
			obey_turn(&turn);
		else
			return;
	}
}

static inline void pass(uint64_t ns)
{
	w.now += ns;
	turns_tick(&w.turns, w.now);
	residency_tick(&w.r, w.now);
	pump();
}

static inline void given(uint64_t capacity, uint64_t budget)
{
	memset(&w, 0, sizeof(w));
	w.now = 100000 * MS;
	turns_init(&w.turns, &turns_usual);
	turns_device_init(&w.turns, &w.device, 0);
	residency_init(&w.r, &residency_usual, capacity, budget);
}

static inline int given_member_of(enum share_class class, int i, uint64_t bytes)
{
	struct turns_share share;
	struct share usual;
	int r;

	share_init(&usual);
	turns_share_of(&usual, &share);
	share.class = class;
	turns_tenant_init(&w.turns, &w.tenants[i], &share);
	turns_join(&w.seats[i], &w.tenants[i], &w.device, NULL, false, w.now);
	residency_join(&w.r, &w.m[i], &w.seats[i], NULL, UINT64_MAX, w.now);
	pump();
	r = residency_ask(&w.m[i], bytes, w.now);
	pump();
	return r;
}

static inline int given_member(int i, uint64_t bytes)
{
	return given_member_of(SHARE_STANDARD, i, bytes);
}

static inline void wants(int i)
{
	turns_wants(&w.seats[i], w.now);
	residency_wants(&w.m[i], w.now);
	pump();
}

static inline void idles(int i)
{
	turns_idle(&w.seats[i], w.now);
	residency_idle(&w.m[i], w.now);
	pump();
}

/* A chunk of the ordered memory leaves, and credited memory comes. Returns true if anything moved.
 */
static inline bool move_chunk(int i)
{
	uint64_t out = w.evict[i] < 64 * MIB ? w.evict[i] : 64 * MIB;
	uint64_t in = w.credit[i];

	w.evict[i] -= out;
	w.credit[i] = 0;
	if (out)
		residency_left(&w.m[i], out, out, w.now);
	if (in)
		residency_came(&w.m[i], in, w.now);
	return out || in;
}

/* All that is ordered and credited moves, chunk by chunk, out before in. */
static inline void move_all(void)
{
	bool moved = true;

	while (moved) {
		moved = false;
		for (int i = 0; i < MEMBERS; i++) {
			moved |= move_chunk(i);
			pass(MS);
		}
	}
}

/* Member 0, of 5 GiB, is told to leave for the first time: 1 GiB and more. */
static inline void given_a_tenant_that_must_leave(void)
{
	given(8 * GIB, 32 * GIB);
	expect_eq(given_member(0, 5 * GIB), 0);
	expect_eq(given_member(1, 2 * GIB), 0);
	pass(1000 * MS);
	expect_eq(given_member(2, 3 * GIB), RESIDENCY_WAITS);
	expect(w.evict[0] > 0 && !w.stuck[0]);
}
