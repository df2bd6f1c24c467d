/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/entry/agent.h"

#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include <sys/prctl.h>

#include "guest/clock.h"
#include "guest/contexts/contexts.h"
#include "guest/driver/real.h"
#include "guest/futex.h"
#include "guest/link/link.h"
#include "guest/memory/credit.h"
#include "guest/movable/movable.h"
#include "guest/movable/movable_stock.h"
#include "guest/notice.h"
#include "guest/state.h"
#include "guest/time/capture.h"
#include "guest/time/flight.h"
#include "guest/time/presence.h"
#include "guest/time/turns.h"

enum {
	LOOK_US = 20,	/* between two looks at a close, or ... */
	LOOK_PART = 16, /* of the time that it has taken so far */
	LOOK_LAST_US = 500,
	PAGE_US = 5000,		 /* between two looks at a page that is not visible yet */
	STACK_BYTES = 256 << 10, /* the driver runs on it, too; in addition to thread-local data */
};

enum phase {
	PHASE_NONE = 0,
	PHASE_THREADS,	/* until no thread is inside a call that submits */
	PHASE_CAPTURES, /* until no capture is open that a drain would disturb */
	PHASE_WORK,	/* until what was submitted is complete */
	PHASE_SAY,	/* until the daemon reads our message that it is */
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

	*close = (struct close){.phase = PHASE_THREADS, .epoch = epoch, .since_ns = now_ns()};
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
	case WIRE_move:
		movable_heard(&message->move);
		break;
	case WIRE_hindered:
		notice_hindered(message->hindered.by.text);
		break;
	case WIRE_credit_recall:
		if (message->credit_recall.device < WIRE_DEVICES)
			agent.recall[message->credit_recall.device] =
				(struct recall){message->id, message->credit_recall.bytes};
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

/* If the connection comes up later, the gates are looked at again. */
static void acknowledge(uint32_t wire_device, int device, struct close *close)
{
	struct drained_word about = {{write_drained, NULL}, wire_device, close->epoch};

	__atomic_store_n(&guest_own_page.submissions, presence_submissions(), __ATOMIC_RELAXED);
	flight_complete(device);
	close->phase = link_try(&about.word) == -EAGAIN ? PHASE_SAY : PHASE_NONE;
}

/* Not before the connection is up; if it is lost, nobody waits for the answer any more. */
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
	r = contexts_drain_step(device, hold == CAPTURE_QUIET);
	capture_let_in();
	return r == 0;
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
	int device = device_of_wire(wire_device);

	if (!still_closed(wire_device)) {
		/* Reopened: nobody relies on a message that was not sent. */
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
		close->phase = PHASE_SAY;
	if (close->phase == PHASE_SAY)
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

/* The device is idle from the end of its work until the next look. */
static int close_wait_us(const struct close *close)
{
	uint64_t us;

	if (close->phase == PHASE_NONE || close->phase == PHASE_SAY)
		return -1;
	us = (now_ns() - close->since_ns) / 1000 / LOOK_PART;
	if (us < LOOK_US)
		return LOOK_US;
	return us < LOOK_LAST_US ? (int)us : LOOK_LAST_US;
}

static int watch(uint32_t wire_device)
{
	struct turns_closes closes = {agent.close[wire_device].phase != PHASE_NONE, walking()};

	if (__atomic_load_n(&guest_tenant_page.turns[wire_device].say, __ATOMIC_RELAXED))
		relax();
	return turns_step(wire_device, device_of_wire(wire_device), &closes);
}

/* How long the agent may wait for a message: for ever, unless a close or watched work is in
 * progress. *ret_writes: it has a message for which the daemon has no room yet. */
static int work(bool *ret_writes)
{
	uint32_t devices = __atomic_load_n(&guest_tenant_page.devices, __ATOMIC_RELAXED);
	int wait_us = -1;

	*ret_writes = false;
	if (state_page_waits())
		sooner(&wait_us, PAGE_US);
	for (uint32_t w = 0; w < WIRE_DEVICES; w++) {
		struct close *close = &agent.close[w];

		if (agent.recall[w].id)
			answer_recall(w, &agent.recall[w]);
		if (close->phase != PHASE_NONE)
			close_step(w);
		*ret_writes |= agent.recall[w].id || close->phase == PHASE_SAY;
		sooner(&wait_us, close_wait_us(close));
	}
	for (uint32_t w = 0; w < devices && w < WIRE_DEVICES; w++)
		sooner(&wait_us, watch(w));
	return wait_us;
}

void agent_up(void)
{
	memset(agent.close, 0, sizeof(agent.close));
	movable_up();
	notice_hindered("");
	/* Until the daemon's page is visible, the other page has gates and epochs of a daemon that
	 * is gone. A daemon that closes a gate from here on sends a message. */
	if (state_page_waits())
		return;
	for (uint32_t w = 0; w < WIRE_DEVICES && w < guest_tenant_page.devices; w++)
		if (still_closed(w))
			close_start(w, __atomic_load_n(&guest_tenant_page.device[w].epoch,
						       __ATOMIC_RELAXED));
}

void agent_down(void)
{
	movable_down();
	memset(agent.recall, 0, sizeof(agent.recall));
	turns_down();
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

static int add_thread_data(struct dl_phdr_info *object, size_t size, void *sum)
{
	(void)size;
	for (int i = 0; i < object->dlpi_phnum; i++)
		if (object->dlpi_phdr[i].p_type == PT_TLS)
			*(size_t *)sum +=
				object->dlpi_phdr[i].p_memsz + object->dlpi_phdr[i].p_align;
	return 0;
}

/* glibc takes the thread-local data of the program and its libraries out of a thread's stack. */
size_t agent_stack_bytes(void)
{
	size_t bytes = STACK_BYTES;

	dl_iterate_phdr(add_thread_data, &bytes);
	return (bytes + 4095) & ~(size_t)4095;
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
	best_effort(pthread_attr_setstacksize(&attributes, agent_stack_bytes()));
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
