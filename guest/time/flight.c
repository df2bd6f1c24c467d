/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/time/flight.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "guest/clock.h"
#include "guest/contexts/contexts.h"
#include "guest/driver/real.h"
#include "guest/futex.h"
#include "guest/process/parts.h"
#include "guest/process/state.h"
#include "guest/signals.h"
#include "guest/time/capture.h"
#include "guest/time/gate.h"
#include "guest/time/held.h"
#include "guest/time/marks.h"
#include "guest/time/told.h"
#include "guest/time/want.h"

enum {
	CONTEXTS = 16, /* that have marks; work in further contexts has no bound */
	DEPTH = 3,     /* how many periods may be under way at most */
	SKIPS = 2,     /* how many times with a pause are ignored in a row */
	PERIOD_LAST = 1 << 16,
	PERIOD_MANY = 16,	 /* of calls whose device is not known */
	PATIENCE_MS = 100,	 /* of one wait, or four times the last time between marks, at most
				    PATIENCE_LAST_MS */
	PATIENCE_COUPLED_MS = 2, /* if the daemon has found that work waits for threads */
	PATIENCE_LAST_MS = 2000,
	PATIENCE_LONG = 6, /* times what ended by itself may last again, as others run beside it, */
	PATIENCE_LONG_MS = 5000, /* at most */
	IN_VAIN = 4,		 /* after so many waits in vain there is no bound */
	SUSPENDED_MS = 1000,	 /* for this time, which doubles up to SUSPENDED_LAST_MS */
	SUSPENDED_LAST_MS = 16000,
	LOCKED_MS = 10, /* how long a thread waits for the marks at most */
	NAP_FIRST_US = 50,
	NAP_LEAST_US = 20,
	NAP_LAST_US = 1000,
};

static const uint64_t ms = 1000000;

static struct {
	struct futex_lock lock; /* of the marks, with all signals blocked */
	struct marks marks[CONTEXTS];
	_Atomic uint32_t period[STATE_DEVICES];
	_Atomic uint32_t dither;
} flight;

static uint64_t bound_ns(int device)
{
	uint32_t w;

	if (device < 0)
		return 0;
	w = atomic_load_explicit(&state.device[device].wire_index, memory_order_relaxed);
	return __atomic_load_n(&guest_tenant_page.turns[w].flight_ns, __ATOMIC_RELAXED);
}

uint32_t flight_period(int device)
{
	uint32_t period;

	/* If one of several devices may be idle, each call has to check whether it is for that
	 * device. */
	if (atomic_load(&want_quiet) && atomic_load(&state.devices) > 1)
		return 1;
	if (device < 0)
		return PERIOD_MANY;
	if (bound_ns(device) == 0)
		return PRESENCE_SAMPLE;
	period = atomic_load(&flight.period[device]);
	/* Varies, so that not always the same stream is sampled. */
	if (period >= 8)
		period -= atomic_fetch_add(&flight.dither, 0x9e3779b9u) % (period / 4);
	return period ? period : 1;
}

void flight_bound(int device, uint64_t before_ns, uint64_t now_ns_)
{
	uint64_t period = atomic_load(&flight.period[device]);

	if (before_ns == 0 || now_ns_ >= before_ns)
		return;
	period = period * (now_ns_ / 1000) / (before_ns / 1000 + 1);
	atomic_store(&flight.period[device], (uint32_t)period);
}

static void show(int device, uint64_t under_way_ns)
{
	uint32_t w = atomic_load(&state.device[device].wire_index);

	__atomic_store_n(&guest_own_page.flight_ns[w], under_way_ns, __ATOMIC_RELAXED);
}

void flight_complete(int device)
{
	if (device >= 0)
		show(device, 0);
}

/* ---- marks ----------------------------------------------------------------------------------- */

/* With the lock held. NULL: there is no room for this context. */
static struct marks *marks_of(CUcontext context)
{
	struct marks *free_ = NULL;

	for (int i = 0; i < CONTEXTS; i++) {
		if (flight.marks[i].context == context)
			return &flight.marks[i];
		if (!flight.marks[i].context && !free_)
			free_ = &flight.marks[i];
	}
	if (!free_)
		return NULL;
	return marks_make(free_, context) ? free_ : NULL;
}

/* Called when the last mark but one, and all before it, are known to be reached. */
static void measure(struct marks *m, int device)
{
	uint64_t period = atomic_load(&flight.period[device]), best;
	uint64_t want = bound_ns(device) / DEPTH, least = want / 64 + 1, apart, calls;
	bool dry;

	if (m->count < 3)
		return;
	dry = m->mark[(m->count - 2) % MARKS].dry;
	calls = m->mark[(m->count - 2) % MARKS].calls;
	/* A time with a pause in it tells little. If there are no others it has to suffice for the
	 * period, but it does not tell how long a call takes. */
	if (dry && m->skipped++ < SKIPS)
		return;
	m->skipped = 0;
	if (!marks_apart(m, m->count - 2, &apart))
		return;
	if (!dry) {
		marks_add_time(m, apart, calls);
		apart = m->sum_apart_ns;
		calls = m->sum_calls;
	}
	best = calls * want / (apart > least ? apart : least);
	/* Increases in steps, as a single time may be misleading. */
	if (best > period * 4 + 4)
		best = period * 4 + 4;
	if (best > PERIOD_LAST)
		best = PERIOD_LAST;
	atomic_store(&flight.period[device], (uint32_t)(best ? best : 1));
}

/* What is queued under a cap is had before it is paid for: so it is waited for as if it were known
 * to end by itself, until that was in vain once. */
static bool is_presumed(const struct marks *m, int device)
{
	return lasts_presumably(&m->lasts) && told_contended(device, WIRE_CAPPED);
}

static uint64_t at_most(uint64_t ns, uint64_t most_ms)
{
	return ns < most_ms * ms ? ns : most_ms * ms;
}

static uint64_t patience_ns(const struct marks *m, int device)
{
	if (is_presumed(m, device))
		return PATIENCE_LONG_MS * ms;
	if (lasts_by_itself(&m->lasts) && m->apart_ns * PATIENCE_LONG > PATIENCE_MS * ms)
		return at_most(m->apart_ns * PATIENCE_LONG, PATIENCE_LONG_MS);
	if (told_contended(device, WIRE_COUPLED))
		return PATIENCE_COUPLED_MS * ms;
	if (m->apart_ns * 4 < PATIENCE_MS * ms)
		return PATIENCE_MS * ms;
	return at_most(m->apart_ns * 4, PATIENCE_LAST_MS);
}

/* The mark was not reached in time: perhaps it waits for this thread. */
static void give_up(struct presence_vain *vain, uint64_t now)
{
	/* Threads that wait for the same mark count as one wait. */
	if (now - vain->last_ns < PATIENCE_MS * ms / 2)
		return;
	vain->last_ns = now;
	if (++vain->count < IN_VAIN && !vain->doubtful)
		return;
	vain->count = 0;
	vain->doubtful = true;
	vain->suspended_ms = vain->suspended_ms ? vain->suspended_ms * 2 : SUSPENDED_MS;
	if (vain->suspended_ms > SUSPENDED_LAST_MS)
		vain->suspended_ms = SUSPENDED_LAST_MS;
	vain->until_ns = now + vain->suspended_ms * ms;
}

/* Returns the time of the first call. */
static uint64_t since(uint64_t *first_ns, uint64_t now)
{
	if (*first_ns == 0)
		*first_ns = now;
	return *first_ns;
}

/* How long this sample has waited, counted from `since_ns` at the earliest. */
static uint64_t waited_ns(struct presence_slot *slot, uint64_t since_ns)
{
	uint64_t now = now_ns(), first = since(&slot->waits_since_ns, now);

	return now - (first > since_ns ? first : since_ns);
}

static uint64_t locked_ns(struct presence_slot *slot)
{
	uint64_t now = now_ns();

	return now - since(&slot->locked_since_ns, now);
}

enum sample {
	GOES_ON = 0, /* there is nothing to wait for, or no longer */
	WAITS,
};

/* How many periods may be under way: fewer if a single call takes longer than its part of the
 * bound. The first one may be of any length. */
static uint64_t depth(const struct marks *m, int device)
{
	uint64_t one = m->sum_apart_ns / (m->sum_calls ? m->sum_calls : 1);
	uint64_t n = one ? bound_ns(device) / one : m->sum_calls ? (uint64_t)DEPTH : 1;

	return n < 1 ? 1 : n < DEPTH ? n : DEPTH;
}

/* May one more period be under way? Marks are left before their calls. */
static bool marks_fit(struct marks *m, uint64_t depth_)
{
	return marks_reached(m, 2) && (depth_ > 2 || marks_reached(m, 1));
}

/* All marks that have to be reached first are in streams that wait for something outside of the
 * device. That may be this thread, and nothing of those streams runs until it comes. */
static bool marks_stand(struct marks *m, uint64_t depth_)
{
	for (uint64_t n = depth_ > 2 ? 2 : 1; n <= 2; n++)
		if (!marks_reached(m, n) && !held_stands(m->context, marks_stream(m, n)))
			return false;
	return true;
}

/* If a single call exceeds the bound, its stream has to be empty; other streams' work may run
 * beside it. */
static bool stream_fits(const struct marks *m, const struct presence_slot *slot, uint64_t depth_,
			CUstream stream)
{
	return depth_ > 1 || slot->vain.until_ns > now_ns() ||
	       real(cuStreamQuery)(stream) != CUDA_ERROR_NOT_READY ||
	       held_stands(m->context, stream);
}

/* The time until the next check. With a depth of 1 the device would be idle until then, so it gets
 * shorter towards the expected end. */
static uint64_t pause_us(const struct marks *m, uint64_t depth_)
{
	uint64_t end = marks_left_ns(m) + m->apart_ns, now = now_ns(), us, least = NAP_FIRST_US;

	us = m->apart_ns / 8000;
	if (depth_ == 1) {
		us = (end > now ? (end - now) / 2 : m->apart_ns / 32) / 1000;
		least = NAP_LEAST_US;
	}
	if (us < least)
		return least;
	return us < NAP_LAST_US ? us : NAP_LAST_US;
}

/* With the lock held. */
static enum sample waits_for(struct marks *m, struct presence_slot *slot, int device,
			     CUstream stream, uint64_t depth_, bool *ret_marks,
			     uint64_t *ret_pause_us)
{
	bool marks = marks_fit(m, depth_);

	*ret_marks = marks;
	if (m->vain.until_ns && m->vain.until_ns > now_ns())
		return GOES_ON;
	/* Then they say nothing of this stream's work. */
	if (!marks && marks_stand(m, depth_)) {
		marks = true;
		depth_ = 1;
	}
	if (marks && stream_fits(m, slot, depth_, stream)) {
		if (slot->waits_since_ns)
			*(slot->waits_for_stream ? &slot->vain : &m->vain) =
				(struct presence_vain){.count = 0};
		return GOES_ON;
	}
	*ret_pause_us = pause_us(m, depth_);
	slot->waits_for_stream = marks;
	/* Counts only the wait for this mark, as another thread may have left it. A wait for a
	 * stream is the thread's alone, and counts from its beginning. */
	if (waited_ns(slot, marks ? 0 : marks_left_ns(m)) < patience_ns(m, device))
		return WAITS;
	lasts_in_vain(&m->lasts, is_presumed(m, device));
	give_up(marks ? &slot->vain : &m->vain, now_ns());
	return GOES_ON;
}

/* With the lock held. */
static enum sample take_sample(struct marks *m, struct presence_slot *slot, int device,
			       CUstream stream, uint64_t *ret_pause_us)
{
	uint64_t depth_;
	bool marks;

	/* If some calls are no samples, it is not known who submitted what. */
	if (__atomic_load_n(&slot->period, __ATOMIC_RELAXED) <= 1 && presence_all_sampled())
		marks_judge(m, presence_passed_ns());
	else
		m->judged = m->count; /* nor will it be known */
	depth_ = depth(m, device);
	if (waits_for(m, slot, device, stream, depth_, &marks, ret_pause_us) == WAITS)
		return WAITS;
	/* Also after a wait in vain, so that it is known how long that lasted. */
	if (!marks && !marks_reached(m, 2))
		return GOES_ON;
	measure(m, device);
	marks_leave(m, stream, slot->sampled, slot->waits_since_ns != 0, gate_waits());
	show(device, depth_ * m->apart_ns);
	return GOES_ON;
}

static enum sample sample(struct presence_slot *slot, int device, CUstream stream,
			  uint64_t *ret_pause_us)
{
	CUcontext context = contexts_of_stream(stream);
	enum sample result = GOES_ON;
	struct marks *m;
	struct signals before;

	if (!context)
		return GOES_ON;
	/* Signals are blocked, as a handler that jumped away would leave the lock held. The holder
	 * may be in the driver, which may wait for this thread: so the wait for the lock is
	 * bounded. */
	signals_block(&before);
	if (futex_lock_try(&flight.lock)) {
		m = marks_of(context);
		slot->locked_since_ns = 0;
		if (m)
			result = take_sample(m, slot, device, stream, ret_pause_us);
		futex_lock_give(&flight.lock);
	} else if (locked_ns(slot) < LOCKED_MS * ms) {
		result = WAITS;
	} else {
		presence_refill(slot, atomic_load(&flight.period[device]) / 4 + 1);
	}
	signals_restore(&before);
	return result;
}

/* Meanwhile a close does not wait for this thread. */
static void nap(struct presence_slot *slot, uint64_t us)
{
	struct timespec pause = {0, (long)us * 1000};

	atomic_store(&slot->state, PRESENCE_WAITS);
	nanosleep(&pause, NULL);
	atomic_store(&slot->state, PRESENCE_IN);
	atomic_thread_fence(memory_order_seq_cst);
}

bool flight_wait(struct presence_slot *slot, int device, CUstream stream)
{
	CUstreamCaptureMode mode;
	enum sample result;
	uint64_t us = NAP_FIRST_US;

	if (bound_ns(device) == 0 || capture_open()) {
		slot->waits_since_ns = 0;
		return false;
	}
	mode = capture_relax();
	result = sample(slot, device, stream, &us);
	capture_restore(mode);
	if (result == WAITS)
		nap(slot, us);
	else
		slot->waits_since_ns = 0;
	return result == WAITS;
}

void flight_context_leaves(CUcontext context)
{
	struct signals before;

	signals_block(&before);
	futex_lock_take(&flight.lock);
	for (int i = 0; i < CONTEXTS; i++)
		if (context && flight.marks[i].context == context)
			flight.marks[i] = (struct marks){.context = NULL};
	futex_lock_give(&flight.lock);
	signals_restore(&before);
}

void flight_forget(void)
{
	memset(&flight, 0, sizeof(flight));
}
