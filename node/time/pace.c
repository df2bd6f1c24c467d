/* SPDX-License-Identifier: Apache-2.0 */
#include "node/time/pace.h"

#include "base/least.h"
#include "core/turns/turns_flight.h"
#include "node/daemon.h"
#include "node/move/move_inside.h"
#include "node/peers/peer.h"
#include "node/tenants/guest_send.h"
#include "node/time/samples.h"

static const uint64_t us = 1000;

enum {
	GRACE_US = 300,		 /* how long a guest is silent before it reports IDLE, */
	GRACE_CONTENDED_US = 50, /* ... while another tenant waits */
	MILLI = 1000,		 /* a cap of so much is none */
};

/* Guests may read while this writes: they act on each word by itself. */
static bool show(struct wire_tenant_turns *shown, const struct wire_tenant_turns *pace)
{
	bool changed = shown->reports != pace->reports || shown->contended != pace->contended ||
		       shown->flight_ns != pace->flight_ns || shown->grace_ns != pace->grace_ns;

	__atomic_store_n(&shown->grace_ns, pace->grace_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&shown->flight_ns, pace->flight_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&shown->contended, pace->contended, __ATOMIC_RELAXED);
	/* A guest may not have seen that turns ended in between. */
	if (pace->reports && !shown->reports)
		__atomic_fetch_add(&shown->began, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&shown->reports, pace->reports, __ATOMIC_SEQ_CST);
	return changed;
}

void pace_tell(struct guest *g, uint32_t device)
{
	struct wire_message message;

	if (!g->caller)
		return;
	wire_begin(&message, WIRE_pace, peer_new_id(&g->caller->peer));
	message.pace.device = device;
	guest_send(g, &message);
}

static void tell_pace_to_all(struct tenant *t, uint32_t device)
{
	list_for_each(link, &t->guests) pace_tell(list_entry(link, struct guest, link), device);
}

/* Each of its processes is told its part. */
static uint64_t flight_ns(const struct tenant_device *at, bool contended)
{
	return turns_flight_ns(&at->seat, contended) / most(at->tenant->guest_count, 1);
}

static uint32_t contended_bits(const struct tenant_device *at)
{
	uint32_t capped = turns_cap_milli(&at->seat) < MILLI ? WIRE_CAPPED : 0;

	if (!at->seat.device->waiting)
		return capped;
	return capped | WIRE_CONTENDED | (pace_is_coupled(at) ? (uint32_t)WIRE_COUPLED : 0);
}

bool pace_listens(const struct tenant_device *at)
{
	return move_listens(at) || samples_listens(at);
}

void pace_show(struct tenant_device *at, bool tell)
{
	uint32_t device = tenant_index(at);
	const struct turns_seat *seat = &at->seat;
	struct wire_tenant_turns now = {0};

	/* At our end tenants are taken apart, and guests go on by what they were last told. */
	if (at->tenant->daemon->stopping)
		return;
	if (at->seated && !seat->device->governed && pace_listens(at)) {
		now.reports = 1;
		now.grace_ns = GRACE_US * us;
		now.flight_ns = samples_bounds(at) ? flight_ns(at, true) : 0;
	}
	if (at->seated && seat->device->governed) {
		now.reports = 1;
		now.contended = contended_bits(at);
		now.flight_ns = flight_ns(at, now.contended & WIRE_CONTENDED);
		now.grace_ns =
			(now.contended & WIRE_CONTENDED ? GRACE_CONTENDED_US : GRACE_US) * us;
	}
	if (show(&at->tenant->shown->turns[device], &now) && tell)
		tell_pace_to_all(at->tenant, device);
}

bool pace_is_coupled(const struct tenant_device *at)
{
	enum turns_bond bond = at->tenant->turns.bond;

	/* Where no gate is to close, it says only what once was. */
	return at->seated && at->seat.device->governed &&
	       (bond == TURNS_STEPPED || bond == TURNS_STAYED);
}
