/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/time/turns.h"

#include <string.h>

#include "guest/clock.h"
#include "guest/contexts/contexts.h"
#include "guest/process/parts.h"
#include "guest/process/state.h"
#include "guest/time/capture.h"
#include "guest/time/flight.h"
#include "guest/time/held.h"
#include "guest/time/presence.h"
#include "guest/time/split.h"
#include "guest/time/want.h"

enum {
	CHECK_US = 100,	       /* time between two checks while somebody waits for the device */
	CHECK_LAST_US = 400,   /* likewise, after some milliseconds of them */
	CHECK_ALONE_US = 1000, /* while nobody waits */
};

/* By index on the wire; only for the agent. */
static struct watch {
	struct presence_snapshot last;
	uint64_t complete_ns; /* since when nothing has been in progress; 0: something is */
	uint64_t flight_ns;   /* as last told to the threads */
	uint64_t began;	      /* the page's `began` when it was last handled */
	int check_us;
} watch[WIRE_DEVICES];

#define page_turns(w, field) __atomic_load_n(&guest_tenant_page.turns[w].field, __ATOMIC_SEQ_CST)

/* Has anything been submitted since the last check? */
static bool has_submitted(struct watch *w)
{
	struct presence_snapshot now;
	bool same;

	presence_snapshot(&now);
	same = now.countdowns == w->last.countdowns && now.refills == w->last.refills;
	w->last = now;
	return !same;
}

/* What threads have submitted until then was no sample. */
static void sample_soon(void)
{
	presence_sample_soon();
	presence_passes();
}

static bool is_busy(int device)
{
	bool busy;

	/* A thread that captures is about to submit work. */
	if (!capture_keep_out())
		return true;
	busy = contexts_busy(device, NULL);
	capture_let_in();
	return busy;
}

/* Nothing has been in progress during the whole grace period. Returns true if IDLE was sent. */
static bool tell_idle(struct watch *w, int device)
{
	bool still = false;
	int r = -EAGAIN;

	want_arm(device);
	if (capture_keep_out()) {
		sample_soon();
		still = presence_is_still();
		capture_let_in();
	}
	/* Notes the countdowns as they are now. */
	best_effort(has_submitted(w));
	if (still)
		r = want_send_idle(device);
	if (r == 0)
		flight_complete(device);
	else
		want_set_busy(device);
	return r == 0;
}

/* If the bound became narrower, threads learn it with their next call. */
static int check_flight(uint32_t wire_device, int device, struct watch *w, bool walking)
{
	uint64_t flight_ns = page_turns(wire_device, flight_ns);

	if (flight_ns == w->flight_ns)
		return -1;
	if (flight_ns != 0 && (w->flight_ns == 0 || flight_ns < w->flight_ns)) {
		if (walking || !capture_keep_out())
			return CHECK_ALONE_US;
		flight_bound(device, w->flight_ns, flight_ns);
		sample_soon();
		capture_let_in();
	}
	w->flight_ns = flight_ns;
	return -1;
}

static int next_check_us(struct watch *w, bool contended)
{
	if (!contended)
		return CHECK_ALONE_US;
	w->check_us = w->check_us ? w->check_us + w->check_us / 16 : CHECK_US;
	if (w->check_us > CHECK_LAST_US)
		w->check_us = CHECK_LAST_US;
	return w->check_us;
}

static int watch_step(uint32_t wire_device, int device, struct watch *w, bool walking)
{
	bool submitted = has_submitted(w);
	uint64_t now, end;

	/* Is all work complete, and did nobody submit while this was checked? */
	if (w->last.inside || is_busy(device) || has_submitted(w) || w->last.inside) {
		w->complete_ns = 0;
		return next_check_us(w, page_turns(wire_device, contended) & WIRE_CONTENDED);
	}
	now = now_ns();
	w->check_us = 0;
	if (submitted || w->complete_ns == 0)
		w->complete_ns = now;
	end = w->complete_ns + page_turns(wire_device, grace_ns);
	if (now < end)
		return (int)((end - now) / 1000) + 1;
	if (walking)
		return CHECK_US;
	w->complete_ns = 0;
	return tell_idle(w, device) ? -1 : CHECK_US;
}

static bool is_open(uint32_t wire_device)
{
	return __atomic_load_n(&guest_tenant_page.device[wire_device].gate, __ATOMIC_SEQ_CST) ==
	       WIRE_GATE_OPEN;
}

int turns_step(uint32_t wire_device, int device, const struct turns_closes *closes)
{
	struct watch *w = &watch[wire_device];
	int flight_us;

	if (device < 0)
		return -1;
	if (page_turns(wire_device, contended)) {
		split_begin();
		held_begin();
	}
	flight_us = check_flight(wire_device, device, w, closes->walking);
	if (!page_turns(wire_device, reports)) {
		if (atomic_load(&want_quiet) & 1u << device)
			want_set_busy(device);
		return flight_us;
	}
	if (want_is_idle(device) && page_turns(wire_device, began) == w->began)
		return flight_us;
	w->began = page_turns(wire_device, began);
	if (atomic_load(&want_quiet) & 1u << device)
		want_set_busy(device);
	/* While a thread waits at the gate the device counts as busy, until it opens. A drain is
	 * followed by a check. */
	if (closes->draining) {
		w->complete_ns = 0;
		return flight_us;
	}
	/* On a busy machine the gate may have opened before the thread has noticed. */
	if (atomic_load(&state.device[device].waiting) != 0) {
		w->complete_ns = 0;
		return is_open(wire_device) ? CHECK_US : flight_us;
	}
	return watch_step(wire_device, device, w, closes->walking);
}

/* On a new connection the guest counts as busy everywhere. */
void turns_down(void)
{
	want_down();
	memset(watch, 0, sizeof(watch));
}

void turns_forget(void)
{
	turns_down();
	atomic_store(&want_quiet, 0);
}
