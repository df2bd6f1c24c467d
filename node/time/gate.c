/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant's gates. A close ends when every guest has drained. If a guest cannot drain because a
 * stream capture stays open, the tenant is coupled: the gate opens again, and the peer that waits
 * for the close is told. See decisions/0010 and 0060.
 */
#include "node/time/gate.h"

#include <inttypes.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include "core/gate.h"
#include "node/daemon.h"
#include "node/peers/peer.h"
#include "node/tenants/guest_send.h"
#include "node/tenants/tenant_show.h"
#include "node/upcalls.h"

enum {
	GATE_COUPLED_MS = 2000, /* how long a capture may stay open during a close */
	GATE_CHECK_MS = 500,	/* while a gate is closing */
};

static const uint64_t ms = 1000000;

_Static_assert((int)GATE_OPEN == (int)WIRE_GATE_OPEN &&
		       (int)GATE_CLOSING == (int)WIRE_GATE_CLOSING &&
		       (int)GATE_SHUT_OFF == (int)WIRE_GATE_CLOSED,
	       "guests see what core/gate.h derives");

/* ---- why it is not open ---------------------------------------------------------------------- */

/* A process that a former daemon had let in is here, and has not stated yet what memory it has out.
 * That may take long: it waits for copies in progress. */
static bool is_unheard(const struct tenant_device *at)
{
	list_for_each(link, (struct list *)&at->tenant->guests)
	{
		const struct guest *g = list_entry(link, struct guest, link);

		if (g->restored && g->caller && !g->stated)
			return true;
	}
	return false;
}

uint32_t tenant_gate_reasons(const struct tenant_device *at)
{
	const struct gate_facts facts = {
		.seat = at->seated ? &at->seat : NULL,
		.member = at->joined ? &at->member : NULL,
		.shut = at->test == GATE_TEST_SHUT,
		.unheard = is_unheard(at),
	};

	return gate_reasons(&facts);
}

static bool owes_drain(const struct tenant_device *at)
{
	list_for_each(link, (struct list *)&at->tenant->guests)
	{
		if (list_entry(link, struct guest, link)->device[tenant_index(at)].owes_drain)
			return true;
	}
	return false;
}

/* ---- changing it ----------------------------------------------------------------------------- */

static void wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Answers the waiting peer. NULL: it is done; otherwise why it was refused. */
static void answer_wait(struct tenant_device *at, const char *refusal)
{
	struct gate_wait wait = at->waiting;

	at->waiting = (struct gate_wait){NULL, 0};
	if (wait.peer && !refusal)
		peer_done(wait.peer, wait.id, 0);
	else if (wait.peer)
		peer_refuse(wait.peer, wait.id, WIRE_REFUSED_BAD, "%s", refusal);
}

static void note_drain(struct tenant_device *at)
{
	uint64_t took = loop_now_ns() - at->closing_ns;

	if (took > at->longest_drain_ns)
		at->longest_drain_ns = took;
}

static void change_gate(struct tenant *t, uint32_t device, uint32_t state)
{
	struct wire_tenant_device *shown = &t->shown->device[device];
	bool was_open = shown->gate == WIRE_GATE_OPEN, is_open = state == WIRE_GATE_OPEN;

	/* The epoch first: a guest that sees the new word must find the epoch to acknowledge. */
	__atomic_fetch_add(&shown->epoch, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&shown->gate, state, __ATOMIC_SEQ_CST);
	/* When closing, after the gate: a guest that sees the summary must find the reason. */
	if (was_open != is_open)
		__atomic_fetch_add(&t->shown->not_open, is_open ? -1u : 1u, __ATOMIC_SEQ_CST);
	__atomic_fetch_add(&t->shown->epoch, 1, __ATOMIC_SEQ_CST);
	/* Only we wait for a gate to close, and we get messages. */
	if (is_open)
		wake(&shown->gate);
	list_for_each(link, &t->guests)
	{
		struct guest *g = list_entry(link, struct guest, link);

		guest_tell_gate(g, device);
	}
}

/* Arms the timer that checks the closing gates again. */
static void check_later(struct daemon *d)
{
	if (!loop_is_armed(&d->gates.timer))
		loop_arm(&d->gates.timer, GATE_CHECK_MS * ms);
}

static void start_closing(struct tenant *t, uint32_t device)
{
	t->device[device].closing_ns = loop_now_ns();
	change_gate(t, device, WIRE_GATE_CLOSING);
	/* The turns have their own deadlines. */
	if (t->device[device].test == GATE_TEST_SHUT)
		check_later(t->daemon);
}

/* A guest that has not drained and reports an open capture; NULL: none. A false report affects only
 * its own tenant. */
static const struct guest *find_capturing(const struct tenant *t, uint32_t device)
{
	list_for_each(link, (struct list *)&t->guests)
	{
		const struct guest *g = list_entry(link, struct guest, link);

		if (g->device[device].owes_drain &&
		    __atomic_load_n(&g->own->captures, __ATOMIC_RELAXED))
			return g;
	}
	return NULL;
}

static void give_up(struct tenant *t, uint32_t device, const struct guest *g)
{
	struct tenant_device *at = &t->device[device];
	char refusal[WIRE_TEXT_MAX + 1];

	log_info("tenant.coupled", "tenant=%u guest=%u pid=%d device=%u", t->id, g->id, (int)g->pid,
		 at->index);
	snprintf(refusal, sizeof(refusal),
		 "the gate cannot be closed: process %d keeps a stream capture open", (int)g->pid);
	at->test = GATE_TEST_FAILED;
	tenant_gate_apply(t, device);
	answer_wait(at, refusal);
}

/* Whether the tenant still has a gate that is closing. */
static bool check(struct tenant *t, uint64_t now)
{
	bool closing = false;

	for (uint32_t i = 0; i < t->devices; i++) {
		const struct guest *g;

		if (t->shown->device[i].gate != WIRE_GATE_CLOSING)
			continue;
		g = t->device[i].test == GATE_TEST_SHUT ? find_capturing(t, i) : NULL;
		if (g && now - t->device[i].closing_ns >= GATE_COUPLED_MS * ms)
			give_up(t, i, g);
		else
			closing = true;
	}
	return closing;
}

static void on_gate_timer(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, gates.timer);
	uint64_t now = loop_now_ns();
	bool closing = false;

	list_for_each(link, &d->tenants.all) closing |=
		check(list_entry(link, struct tenant, link), now);
	if (closing)
		check_later(d);
}

int gates_open(struct daemon *d)
{
	return loop_timer_init(&d->loop, &d->gates.timer, on_gate_timer);
}

void gates_close(struct daemon *d)
{
	loop_timer_close(&d->gates.timer, NULL);
}

void tenant_gate_open_late(struct tenant *t, uint32_t device)
{
	if (t->shown->device[device].gate != WIRE_GATE_OPEN &&
	    !tenant_gate_reasons(&t->device[device]))
		change_gate(t, device, WIRE_GATE_OPEN);
}

void tenant_gates_open_late(struct tenant *t)
{
	for (uint32_t i = 0; i < t->devices; i++)
		tenant_gate_open_late(t, i);
}

/* All of its processes have acknowledged the close. */
static void end_closing(struct tenant_device *at)
{
	struct wire_tenant_device *shown = &at->tenant->shown->device[tenant_index(at)];

	if (shown->gate == WIRE_GATE_CLOSING) {
		__atomic_store_n(&shown->gate, WIRE_GATE_CLOSED, __ATOMIC_SEQ_CST);
		if (at->test == GATE_TEST_FAILED)
			at->test = GATE_UNTESTED;
		note_drain(at);
	}
	answer_wait(at, NULL);
	schedule_drained(at);
}

void tenant_gate_apply(struct tenant *t, uint32_t device)
{
	struct tenant_device *at = &t->device[device];
	uint32_t reasons = tenant_gate_reasons(at);
	bool is_open = t->shown->device[device].gate == WIRE_GATE_OPEN;

	tenant_show_stands(t);
	if (gate_has_memory(reasons) || at->wait.kind)
		waits_look(at);
	if (reasons && is_open)
		start_closing(t, device);
	switch (gate_state(reasons, owes_drain(at))) {
	case GATE_OPEN:
		if (!is_open)
			change_gate(t, device, WIRE_GATE_OPEN);
		break;
	case GATE_CLOSING:
		break;
	case GATE_SHUT_OFF:
		end_closing(at);
		break;
	}
}

void tenant_gate(struct tenant *t, uint32_t device, bool open, const struct gate_wait *wait)
{
	struct tenant_device *at = &t->device[device];

	answer_wait(at, "the gate was changed again before every process had drained");
	at->waiting = *wait;
	at->test = open ? GATE_UNTESTED : GATE_TEST_SHUT;
	tenant_gate_apply(t, device);
	if (open)
		answer_wait(at, NULL);
}

void tenant_forget_peer(struct tenant *t, const struct peer *peer)
{
	for (uint32_t i = 0; i < t->devices; i++) {
		if (peer && t->device[i].waiting.peer == peer)
			t->device[i].waiting = (struct gate_wait){NULL, 0};
	}
}
