/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/credit.h"

#include <stdatomic.h>
#include <time.h>

#include "guest/link.h"
#include "guest/moves.h"
#include "guest/say.h"
#include "guest/state.h"

enum {
	AWAY_WAIT_MS = 10000,	     /* for a daemon that is being replaced */
	AWAY_WAIT_CAPTURE_MS = 5000, /* the same while a capture is open */
};

static uint64_t round_up(uint64_t bytes, uint64_t step)
{
	return bytes > UINT64_MAX - step ? bytes : (bytes + step - 1) / step * step;
}

/* The page shows what is true in the end, whoever writes last: who stored looks again. */
static void show(_Atomic uint64_t *truth, uint64_t *place)
{
	uint64_t value;

	do {
		value = atomic_load(truth);
		__atomic_store_n(place, value, __ATOMIC_SEQ_CST);
	} while (atomic_load(truth) != value);
}

static inline void publish_amounts(struct state_device *d)
{
	uint32_t w = atomic_load_explicit(&d->wire_index, memory_order_relaxed);

	show(&d->allocated, &guest_own_page.device[w].allocated_bytes);
	moves_raise(&guest_own_page.device[w].peak_bytes, atomic_load(&d->allocated));
	show(&d->credit, &guest_own_page.device[w].credit_bytes);
}

void credit_publish(int device)
{
	struct state_device *d = &state.device[device];
	uint32_t w = atomic_load_explicit(&d->wire_index, memory_order_relaxed);

	publish_amounts(d);
	show(&d->contexts, &guest_own_page.device[w].contexts);
	show(&d->adrift, &guest_own_page.adrift_bytes[w]);
	show(&d->loose, &guest_own_page.loose_bytes[w]);
}

/* Subtracts, unless there is less. */
static bool take_from(_Atomic uint64_t *amount, uint64_t bytes)
{
	uint64_t have = atomic_load_explicit(amount, memory_order_relaxed);

	do {
		if (have < bytes)
			return false;
	} while (!atomic_compare_exchange_weak(amount, &have, have - bytes));
	return true;
}

/* Subtracts `bytes`, or what there is; returns how much. */
static uint64_t take_some(_Atomic uint64_t *amount, uint64_t bytes)
{
	uint64_t have = atomic_load_explicit(amount, memory_order_relaxed), some;

	do {
		some = have < bytes ? have : bytes;
	} while (!atomic_compare_exchange_weak(amount, &have, have - some));
	return some;
}

static int refusal(struct state_device *d, const struct wire_message *answer)
{
	if (atomic_exchange(&d->refused_said, 1) == 0)
		say("out of memory: %s", answer->refused.reason.text);
	return answer->refused.code == WIRE_REFUSED_LIMIT ? CREDIT_LIMIT : CREDIT_FULL;
}

/* One request. 0: the bytes are the caller's, as allocated; an outcome; -ENOTCONN. */
static int ask(struct state_device *d, uint64_t bytes, enum credit_how how)
{
	struct wire_message message = {.code = WIRE_credit_ask}, answer;
	uint64_t want = round_up(bytes, CREDIT_STEP);
	bool pauses = how != CREDIT_OWED, granted;
	int r;

	message.credit_ask.device = atomic_load(&d->wire_index);
	message.credit_ask.wait = how == CREDIT_WAIT;
	message.credit_ask.bytes = bytes;
	message.credit_ask.want = want > UINT64_MAX - CREDIT_WANT ? want : want + CREDIT_WANT;
	/* Who waits for the daemon changes nothing, and the daemon may be about to measure before
	 * it answers; a grant is a move from its arrival on (link.c), which becomes ours. */
	if (pauses)
		moves_end();
	r = link_ask(&message, how == CREDIT_WAIT, &answer);
	granted = r == 0 && answer.code == WIRE_credit_grant && answer.credit_grant.bytes >= bytes;
	if (pauses && !granted)
		moves_begin();
	if (!pauses && granted)
		moves_end();
	if (r < 0)
		return -ENOTCONN;
	if (answer.code == WIRE_refused)
		return refusal(d, &answer);
	return granted ? 0 : CREDIT_FULL; /* credit_arrived() has done the rest */
}

static bool take_local(struct state_device *d, uint64_t bytes)
{
	if (!take_from(&d->credit, bytes))
		return false;
	atomic_fetch_add(&d->allocated, bytes);
	return true;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int take_asking(struct state_device *d, uint64_t bytes, enum credit_how how)
{
	int64_t left = how == CREDIT_WAIT ? AWAY_WAIT_MS : AWAY_WAIT_CAPTURE_MS;
	int64_t end = now_ms() + left;
	uint32_t number;
	int r;

	do {
		number = link_number();
		r = atomic_load(&state.lost) ? -ENOTCONN : ask(d, bytes, how);
		/* What another thread freed while we asked serves as well. */
		if (r != 0 && take_local(d, bytes))
			return 0;
		if (r >= 0)
			return r;
		left = end - now_ms();
	} while (left > 0 && link_wait_back(number, (int)left));
	if (atomic_exchange(&d->refused_said, 1) == 0)
		say("out of memory: the daemon is away, and %lu bytes are more than this process "
		    "was granted",
		    (unsigned long)bytes);
	return CREDIT_AWAY;
}

int credit_take(int device, uint64_t bytes, enum credit_how how)
{
	static _Atomic uint32_t said;
	struct state_device *d;
	int r = 0;

	if (device < 0 || !state_joined()) {
		if (atomic_exchange(&said, 1) == 0)
			say("memory was asked for on a device that is not the tenant's");
		return CREDIT_LIMIT;
	}
	d = &state.device[device];
	if (!take_local(d, bytes))
		r = how == CREDIT_LOCAL ? CREDIT_FULL : take_asking(d, bytes, how);
	if (r == 0)
		publish_amounts(d);
	return r;
}

static void give_back(struct state_device *d, uint64_t bytes, uint32_t recall)
{
	struct wire_message message = {.code = WIRE_credit_return};
	uint64_t some = take_some(&d->credit, bytes);

	if (some == 0 && recall == 0)
		return;
	message.credit_return.device = atomic_load(&d->wire_index);
	message.credit_return.recall = recall;
	message.credit_return.bytes = some;
	atomic_fetch_sub(&d->granted, some);
	atomic_store(&d->returned, 1);
	if (link_send(&message) < 0) {
		atomic_fetch_add(&d->granted, some);
		atomic_fetch_add(&d->credit, some);
	}
}

void credit_give(int device, uint64_t bytes)
{
	struct state_device *d;
	uint64_t credit;

	if (device < 0)
		return;
	d = &state.device[device];
	bytes = take_some(&d->allocated, bytes);
	credit = atomic_fetch_add(&d->credit, bytes) + bytes;
	if (unlikely(credit > 2ULL * CREDIT_KEPT))
		give_back(d, credit - CREDIT_KEPT, 0);
	publish_amounts(d);
}

void credit_adrift(int device, int64_t change)
{
	if (device < 0)
		return;
	atomic_fetch_add(&state.device[device].adrift, (uint64_t)change);
	credit_publish(device);
}

void credit_loose(int device, uint64_t bytes)
{
	struct state_device *d = &state.device[device];

	atomic_store(&d->loose, bytes);
	show(&d->loose, &guest_own_page.loose_bytes[atomic_load(&d->wire_index)]);
}

uint64_t credit_allocated(int device)
{
	return device < 0 ? 0 : atomic_load(&state.device[device].allocated);
}

bool credit_returned(int device)
{
	return atomic_load_explicit(&state.device[device].returned, memory_order_relaxed) &&
	       atomic_exchange(&state.device[device].returned, 0);
}

uint64_t credit_unused(int device)
{
	return device < 0 ? 0 : atomic_load(&state.device[device].credit);
}

static int of_wire(uint32_t wire_device)
{
	uint32_t devices = atomic_load(&state.devices);

	for (uint32_t i = 0; i < devices; i++)
		if (!atomic_load(&state.device[i].gone) &&
		    atomic_load(&state.device[i].wire_index) == wire_device)
			return (int)i;
	return -1;
}

/* The asker's bytes go to it, not through the common credit, where another thread could take them
 * and send it asking again. */
void credit_arrived(uint32_t wire_device, uint64_t bytes, uint64_t asked)
{
	int device = of_wire(wire_device);
	struct state_device *d;

	if (device < 0)
		return;
	if (asked > bytes)
		asked = 0;
	d = &state.device[device];
	atomic_fetch_add(&d->granted, bytes);
	atomic_fetch_add(&d->allocated, asked);
	atomic_fetch_add(&d->credit, bytes - asked);
	credit_publish(device);
}

void credit_recall(uint32_t wire_device, uint64_t bytes, uint32_t recall_id)
{
	int device = of_wire(wire_device);

	if (device < 0)
		return;
	give_back(&state.device[device], bytes, recall_id);
	credit_publish(device);
}
