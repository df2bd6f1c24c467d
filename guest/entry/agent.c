/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent is the guest's only thread; it blocks every signal. It reads the daemon's messages,
 * returns credit, and closes gates: it checks that no thread is inside a call that submits, that no
 * capture is open and that all submitted work is complete, and then sends DRAINED. After that
 * nothing is submitted until the gate opens again. If the daemon is gone, the agent reconnects.
 *
 * It never waits inside the driver for application work that may not end: work in flight may depend
 * on a thread that waits at the gate (a host function, a stream that waits for a word). Such a
 * close is not acknowledged; the daemon sees the waiting threads in the own page and reopens the
 * gate.
 */
#include "guest/process/pages.h"
#include <stdbool.h>
#include <string.h>

#include <sys/prctl.h>

#include "guest/clock.h"
#include "guest/contexts/contexts.h"
#include "guest/credit/credit.h"
#include "guest/driver/real.h"
#include "guest/futex.h"
#include "guest/link/link.h"
#include "guest/movable/movable_stock.h"
#include "guest/process/parts.h"
#include "guest/process/state.h"
#include "guest/say.h"
#include "guest/threads.h"
#include "guest/time/capture.h"
#include "guest/time/flight.h"
#include "guest/time/held.h"
#include "guest/time/presence.h"
#include "guest/time/turns.h"

enum {
	CHECK_US = 20,	 /* between two checks of a close, or ... */
	CHECK_PART = 16, /* of the time that it has taken so far */
	CHECK_LAST_US = 500,
	PAGE_US = 5000, /* between two checks of a page that is not visible yet */
};

enum phase {
	PHASE_NONE = 0,
	PHASE_THREADS,	/* until no thread is inside a call that submits */
	PHASE_CAPTURES, /* until no capture is open that a drain would disturb */
	PHASE_WORK,	/* until what was submitted is complete */
	PHASE_TELL,	/* until the daemon reads our message that all is complete */
};

struct close {
	enum phase phase;
	uint64_t epoch;
	struct presence_walk walk;
	uint64_t since_ns;
};

/* The daemon asked for unused credit and has no answer yet. 0: it did not ask. */
struct recall {
	uint32_t id;
	uint64_t bytes;
};

/* By index on the wire, as the daemon names devices. Only for the agent. */
static struct {
	struct close close[WIRE_DEVICES];
	struct recall recall[WIRE_DEVICES];
	bool relaxed; /* the agent's capture mode was set */
} agent;

static void close_start(uint32_t wire_device, uint64_t epoch)
{
	struct close *close = &agent.close[wire_device];

	*close = (struct close){.phase = PHASE_THREADS, .epoch = epoch, .since_ns = now_ns()};
	/* A former meted's epochs were the same numbers. */
	__atomic_store_n(&guest_own_page.held[wire_device], 0, __ATOMIC_RELAXED);
	presence_barrier();
	presence_walk_start(&close->walk);
}

/* meted learns from this whether the process has submitted anything since its last question. */
static void count_submissions(void)
{
	__atomic_store_n(&guest_own_page.submissions, presence_submissions(), __ATOMIC_RELAXED);
	__atomic_fetch_add(&guest_own_page.counts, 1, __ATOMIC_RELEASE);
}

void agent_heard(const struct wire_message *message, int *fd)
{
	(void)fd;
	if (message->code == WIRE_pace)
		count_submissions();
	if (message->code == WIRE_gate && message->gate.device < WIRE_DEVICES) {
		if (message->gate.state == WIRE_GATE_OPEN)
			agent.close[message->gate.device].phase = PHASE_NONE;
		else
			close_start(message->gate.device, message->gate.epoch);
	}
	if (message->code == WIRE_credit_recall && message->credit_recall.device < WIRE_DEVICES)
		agent.recall[message->credit_recall.device] =
			(struct recall){message->id, message->credit_recall.bytes};
}

static bool is_closed(const struct wire_tenant_page *page, uint32_t wire_device)
{
	return __atomic_load_n(&page->device[wire_device].gate, __ATOMIC_SEQ_CST) != WIRE_GATE_OPEN;
}

/* For the threads, and for the daemon, whose page they may not see yet. */
static bool still_closed(uint32_t wire_device)
{
	return is_closed(&guest_tenant_page, wire_device) &&
	       is_closed(pages_of_daemon(), wire_device);
}

struct drained_word {
	struct link_word word;
	uint32_t wire_device;
	uint64_t epoch;
};

static int write_drained(struct link_word *word, struct wire_message *message)
{
	const struct drained_word *about = container_of(word, struct drained_word, word);

	message->code = WIRE_drained;
	message->drained.device = about->wire_device;
	message->drained.epoch = about->epoch;
	return 0;
}

/* If the connection comes up later, the gates are checked again. */
static void acknowledge(uint32_t wire_device, int device, struct close *close)
{
	struct drained_word about = {{write_drained, NULL}, wire_device, close->epoch};

	count_submissions();
	flight_complete(device);
	close->phase = link_try(&about.word) == -EAGAIN ? PHASE_TELL : PHASE_NONE;
}

/* Only once the connection is up; if it is lost, meted does not wait for the answer any more. */
static void answer_recall(uint32_t wire_device, struct recall *recall)
{
	int r;

	link_drop_unclaimed();
	if (movable_stock_recalled(wire_device, recall->id, recall->bytes)) {
		recall->id = 0;
		return;
	}
	r = credit_recall(wire_device, recall->bytes, recall->id);
	if (r != -EAGAIN && r != -ENOTCONN)
		recall->id = 0;
}

/* The agent's calls must not disturb other threads' captures; once is enough for this thread. */
static void relax(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	if (agent.relaxed)
		return;
	best_effort(real(cuThreadExchangeStreamCaptureMode)(&mode));
	/* For this thread; by default a wait may end 50 us late. */
	best_effort(syscall(SYS_prctl, PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL));
	agent.relaxed = true;
}

static bool work_complete(struct close *close, int device)
{
	enum capture_hold hold = capture_hold();
	int r;

	if (hold == CAPTURE_LOUD) {
		close->phase = PHASE_CAPTURES;
		return false;
	}
	/* The drain would block for streams that were destroyed with work left, which it cannot
	 * ask. */
	r = held_streams_left(device) ||
	    contexts_drain_step(device, hold == CAPTURE_QUIET ? capture_is_known : NULL);
	capture_let_in();
	return r == 0;
}

/* For meted, which reads it if the close is late: all that is left waits for something outside. */
static void show_held(uint32_t wire_device, int device, uint64_t epoch)
{
	bool held = held_any() && capture_keep_out();

	if (held) {
		held = held_all(device);
		capture_let_in();
	}
	__atomic_store_n(&guest_own_page.held[wire_device], held ? epoch : 0, __ATOMIC_RELAXED);
}

/* No capture is open that a drain would disturb. */
static bool captures_over(void)
{
	enum capture_hold hold;

	relax();
	if (capture_count() == 0)
		return true;
	hold = capture_hold();
	if (hold != CAPTURE_LOUD)
		capture_let_in();
	return hold != CAPTURE_LOUD;
}

/* Advances a close as far as possible without waiting. */
static void close_step(uint32_t wire_device)
{
	struct close *close = &agent.close[wire_device];
	int device = state_of_wire(wire_device);

	if (!still_closed(wire_device)) {
		/* Reopened: meted does not rely on a message that was not sent. */
		close->phase = PHASE_NONE;
		return;
	}
	if (close->phase == PHASE_THREADS && presence_walk_step(&close->walk))
		close->phase = PHASE_CAPTURES;
	if (close->phase == PHASE_CAPTURES && captures_over()) {
		contexts_drain_start(device);
		close->phase = PHASE_WORK;
	}
	if (close->phase == PHASE_WORK && work_complete(close, device))
		close->phase = PHASE_TELL;
	if (close->phase == PHASE_WORK)
		show_held(wire_device, device, close->epoch);
	if (close->phase == PHASE_TELL)
		acknowledge(wire_device, device, close);
}

static void sooner(int *wait_us, int other_us)
{
	if (other_us >= 0 && (*wait_us < 0 || other_us < *wait_us))
		*wait_us = other_us;
}

static bool walking(void)
{
	for (uint32_t w = 0; w < WIRE_DEVICES; w++)
		if (agent.close[w].phase == PHASE_THREADS)
			return true;
	return false;
}

/* The device is idle from the end of its work until the next check. */
static int close_wait_us(const struct close *close)
{
	uint64_t us;

	if (close->phase == PHASE_NONE || close->phase == PHASE_TELL)
		return -1;
	us = (now_ns() - close->since_ns) / 1000 / CHECK_PART;
	if (us < CHECK_US)
		return CHECK_US;
	return us < CHECK_LAST_US ? (int)us : CHECK_LAST_US;
}

static int watch(uint32_t wire_device)
{
	struct turns_closes closes = {agent.close[wire_device].phase != PHASE_NONE, walking()};

	if (__atomic_load_n(&guest_tenant_page.turns[wire_device].reports, __ATOMIC_RELAXED))
		relax();
	return turns_step(wire_device, state_of_wire(wire_device), &closes);
}

/* How long the agent may wait for a message: for ever, unless a close or watched work is in
 * progress. *ret_writes: a message is pending for which the daemon had no room. */
static int work(bool *ret_writes)
{
	uint32_t devices = __atomic_load_n(&guest_tenant_page.devices, __ATOMIC_RELAXED);
	int wait_us = -1;

	*ret_writes = false;
	if (pages_wait())
		sooner(&wait_us, PAGE_US);
	for (uint32_t w = 0; w < WIRE_DEVICES; w++) {
		struct close *close = &agent.close[w];

		if (agent.recall[w].id)
			answer_recall(w, &agent.recall[w]);
		if (close->phase != PHASE_NONE)
			close_step(w);
		*ret_writes |= agent.recall[w].id || close->phase == PHASE_TELL;
		sooner(&wait_us, close_wait_us(close));
	}
	for (uint32_t w = 0; w < devices && w < WIRE_DEVICES; w++)
		sooner(&wait_us, watch(w));
	return wait_us;
}

void agent_up(void)
{
	const struct wire_tenant_page *page;

	pages_wait();
	page = pages_of_daemon();
	memset(agent.close, 0, sizeof(agent.close));
	/* If it closes a gate from here on, it sends a message. */
	for (uint32_t w = 0; w < WIRE_DEVICES && w < page->devices; w++)
		if (still_closed(w))
			close_start(w, __atomic_load_n(&page->device[w].epoch, __ATOMIC_RELAXED));
}

void agent_down(void)
{
	memset(agent.recall, 0, sizeof(agent.recall));
}

static void *run(void *unused_argument)
{
	bool writes;
	int wait_us;

	(void)unused_argument;
	do {
		wait_us = work(&writes);
	} while (link_step(wait_us, writes) == 0);
	return NULL;
}

int agent_start(void)
{
	int r = threads_start(run);

	if (r == -EPERM)
		say_lack("clone3");
	else if (r < 0)
		say("the guest's agent thread cannot be started: %s",
		    r == -EAGAIN ? "too many processes or threads" : "no memory");
	return r;
}

void agent_forget(void)
{
	memset(&agent, 0, sizeof(agent));
}
