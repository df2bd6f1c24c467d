/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/agent.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "guest/capture.h"
#include "guest/contexts.h"
#include "guest/credit.h"
#include "guest/futex.h"
#include "guest/link.h"
#include "guest/presence.h"
#include "guest/real.h"
#include "guest/state.h"

enum {
	EAGER_STEPS = 64, /* of a close, before the agent takes it slower */
	EAGER_US = 20,
	PATIENT_US = 500,
	RETRY_FIRST_MS = 10,
	RETRY_LAST_MS = 50,	 /* a daemon is away for about as long when it is replaced */
	STACK_BYTES = 256 << 10, /* the driver runs on it, too */
};

enum phase {
	PHASE_NONE = 0,
	PHASE_THREADS,	/* until no thread is inside a call that submits */
	PHASE_CAPTURES, /* until no capture is open */
	PHASE_WORK,	/* until what was submitted is complete */
};

struct close {
	enum phase phase;
	uint64_t epoch;
	struct presence_walk walk;
	unsigned steps;
};

/* By index on the wire, as the daemon names devices. The agent's own: nobody else looks. */
static struct {
	struct close close[WIRE_DEVICES];
	bool relaxed; /* the agent's capture mode was set */
} agent;

static int device_of_wire(uint32_t wire_device)
{
	for (uint32_t i = 0; i < atomic_load(&state.devices); i++)
		if (!atomic_load(&state.device[i].gone) &&
		    atomic_load(&state.device[i].wire_index) == wire_device)
			return (int)i;
	return -1;
}

static void close_start(uint32_t wire_device, uint64_t epoch)
{
	struct close *close = &agent.close[wire_device];

	*close = (struct close){.phase = PHASE_THREADS, .epoch = epoch};
	presence_barrier();
	presence_walk_start(&close->walk);
}

void agent_heard(const struct wire_message *message)
{
	switch (message->code) {
	case WIRE_gate:
		if (message->gate.device >= WIRE_DEVICES)
			break;
		if (message->gate.state == WIRE_GATE_OPEN)
			agent.close[message->gate.device].phase = PHASE_NONE;
		else
			close_start(message->gate.device, message->gate.epoch);
		break;
	case WIRE_credit_recall:
		credit_recall(message->credit_recall.device, message->credit_recall.bytes,
			      message->id);
		break;
	default:
		break;
	}
}

static bool still_closed(uint32_t wire_device)
{
	return __atomic_load_n(&guest_tenant_page.device[wire_device].gate, __ATOMIC_SEQ_CST) !=
	       WIRE_GATE_OPEN;
}

static void acknowledge(uint32_t wire_device, struct close *close)
{
	struct wire_message message = {.code = WIRE_drained};

	message.drained.device = wire_device;
	message.drained.epoch = close->epoch;
	__atomic_store_n(&guest_own_page.submissions, presence_submissions(), __ATOMIC_RELAXED);
	close->phase = PHASE_NONE;
	best_effort(link_send(&message));
}

/* The agent's calls must not disturb captures of other threads; once is enough, for this thread. */
static void relax(void)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	if (!agent.relaxed)
		best_effort(real(cuThreadExchangeStreamCaptureMode)(&mode));
	agent.relaxed = true;
}

static bool work_complete(struct close *close, int device)
{
	int r;

	if (!capture_keep_out()) {
		close->phase = PHASE_CAPTURES;
		return false;
	}
	r = contexts_drain_step(device);
	capture_let_in();
	return r == 0;
}

/* Goes on with a close as far as it gets without waiting. */
static void close_step(uint32_t wire_device)
{
	struct close *close = &agent.close[wire_device];
	int device = device_of_wire(wire_device);

	close->steps++;
	if (!still_closed(wire_device)) {
		/* Reopened: what we do not say cannot be relied upon. */
		close->phase = PHASE_NONE;
		return;
	}
	if (close->phase == PHASE_THREADS && presence_walk_step(&close->walk))
		close->phase = PHASE_CAPTURES;
	if (close->phase == PHASE_CAPTURES && capture_count() == 0) {
		relax();
		contexts_drain_start(device);
		close->phase = PHASE_WORK;
	}
	if (close->phase == PHASE_WORK && work_complete(close, device))
		acknowledge(wire_device, close);
}

/* How long the agent may wait for a message: for ever, unless a close is under way. */
static int work(void)
{
	int wait_us = -1;

	for (uint32_t w = 0; w < WIRE_DEVICES; w++) {
		if (agent.close[w].phase != PHASE_NONE)
			close_step(w);
		if (agent.close[w].phase == PHASE_NONE)
			continue;
		if (agent.close[w].steps >= EAGER_STEPS && wait_us < 0)
			wait_us = PATIENT_US;
		if (agent.close[w].steps < EAGER_STEPS)
			wait_us = EAGER_US;
	}
	return wait_us;
}

/* Gates that were closed before we came. */
static void look_at_gates(void)
{
	memset(agent.close, 0, sizeof(agent.close));
	for (uint32_t w = 0; w < WIRE_DEVICES && w < guest_tenant_page.devices; w++)
		if (still_closed(w))
			close_start(w, __atomic_load_n(&guest_tenant_page.device[w].epoch,
						       __ATOMIC_RELAXED));
}

static int state_inventory(int device)
{
	struct wire_message message = {.code = WIRE_inventory}, answer;
	struct state_device *d = &state.device[device];
	uint64_t granted = atomic_load(&d->granted), allocated = atomic_load(&d->allocated);
	int r;

	if (allocated > granted)
		allocated = granted;
	message.inventory.device = atomic_load(&d->wire_index);
	message.inventory.contexts = (uint32_t)atomic_load(&d->contexts);
	message.inventory.allocated = allocated;
	message.inventory.credit = granted - allocated;
	r = link_ask_directly(&message, &answer);
	if (r < 0)
		return r;
	if (answer.code == WIRE_refused)
		atomic_fetch_sub(&d->granted, atomic_exchange(&d->credit, 0));
	credit_publish(device);
	return 0;
}

static int come_back(void)
{
	int r = link_connect(0);

	for (uint32_t i = 0; r == 0 && i < atomic_load(&state.devices); i++)
		if (!atomic_load(&state.device[i].gone))
			r = state_inventory((int)i);
	return r;
}

static void reconnect(void)
{
	int wait_ms = RETRY_FIRST_MS;

	/* First: whoever link_drop() wakes must not find the daemon there, and use up its tries. */
	state_lost();
	link_drop();
	while (come_back() < 0) {
		struct timespec wait = {wait_ms / 1000, (long)(wait_ms % 1000) * 1000000};

		link_drop();
		state_lost();
		nanosleep(&wait, NULL);
		wait_ms = wait_ms * 2 > RETRY_LAST_MS ? RETRY_LAST_MS : wait_ms * 2;
	}
	look_at_gates();
	atomic_store(&state.lost, 0);
	atomic_fetch_add(&state.connection, 1);
	futex_wake_all(&state.connection);
}

static void *run(void *unused_argument)
{
	int wait_us;

	(void)unused_argument;
	look_at_gates();
	for (;;) {
		wait_us = work();
		if (link_pump(wait_us) < 0)
			reconnect();
	}
	return NULL;
}

int agent_start(void)
{
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, before;
	int r;

	memset(&all, 0xff, sizeof(all));
	if (pthread_attr_init(&attributes) != 0)
		return -ENOMEM;
	best_effort(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED));
	best_effort(pthread_attr_setstacksize(&attributes, STACK_BYTES));
	/* The thread inherits the mask: no signal of the program is ever delivered to it. */
	best_effort(sigprocmask(SIG_SETMASK, &all, &before));
	r = pthread_create(&thread, &attributes, run, NULL);
	best_effort(sigprocmask(SIG_SETMASK, &before, NULL));
	best_effort(pthread_attr_destroy(&attributes));
	return -r;
}

void agent_forget(void)
{
	memset(&agent, 0, sizeof(agent));
}
