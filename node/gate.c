/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tenant's gates. A close ends when every guest has drained. If a guest cannot drain because a
 * stream capture stays open, the tenant is coupled: the gate opens again, and the peer that waits
 * for the close is told. See decisions/0010 and 0060.
 */
#include <inttypes.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>

#include "node/daemon.h"
#include "node/guest.h"
#include "node/schedule.h"

enum {
	GATE_COUPLED_MS = 2000, /* how long a capture may stay open during a close */
	GATE_LOOK_MS = 500,	/* while a gate is closing */
};

static const uint64_t ms = 1000000;

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

void tenant_gate_check(struct tenant *t, uint32_t device)
{
	struct wire_tenant_device *shown = &t->shown->device[device];

	if (shown->gate == WIRE_GATE_CLOSING) {
		list_for_each(link, &t->guests)
		{
			const struct guest *g = list_entry(link, struct guest, link);

			if (g->device[device].owes_drain)
				return;
		}
		__atomic_store_n(&shown->gate, WIRE_GATE_CLOSED, __ATOMIC_SEQ_CST);
		t->device[device].coupled = false;
		note_drain(&t->device[device]);
	}
	if (shown->gate != WIRE_GATE_CLOSED)
		return;
	answer_wait(&t->device[device], NULL);
	schedule_drained(&t->device[device]);
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
static void look_later(struct daemon *d)
{
	if (!d->gating)
		loop_arm(&d->gate_timer, GATE_LOOK_MS * ms);
	d->gating = true;
}

static void start_closing(struct tenant *t, uint32_t device)
{
	t->device[device].closing_ns = loop_now_ns();
	change_gate(t, device, WIRE_GATE_CLOSING);
	/* The turns have their own deadlines. */
	if (t->device[device].shut)
		look_later(t->daemon);
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

	if (!at->coupled)
		log_info("tenant.coupled", "tenant=%u guest=%u pid=%d device=%u", t->id, g->id,
			 (int)g->pid, at->index);
	at->coupled = true;
	snprintf(refusal, sizeof(refusal),
		 "the gate cannot be closed: process %d keeps a stream capture open", (int)g->pid);
	at->shut = false;
	tenant_gate_apply(t, device);
	answer_wait(at, refusal);
}

/* Whether the tenant still has a gate that is closing. */
static bool look_at(struct tenant *t, uint64_t now)
{
	bool closing = false;

	for (uint32_t i = 0; i < t->devices; i++) {
		const struct guest *g;

		if (t->shown->device[i].gate != WIRE_GATE_CLOSING)
			continue;
		g = t->device[i].shut ? find_capturing(t, i) : NULL;
		if (g && now - t->device[i].closing_ns >= GATE_COUPLED_MS * ms)
			give_up(t, i, g);
		else
			closing = true;
	}
	return closing;
}

static void on_gate_timer(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, gate_timer);
	uint64_t now = loop_now_ns();
	bool closing = false;

	d->gating = false;
	list_for_each(link, &d->tenants) closing |=
		look_at(list_entry(link, struct tenant, link), now);
	if (closing)
		look_later(d);
}

int gate_open(struct daemon *d)
{
	return loop_timer_init(&d->loop, &d->gate_timer, on_gate_timer);
}

void gate_close(struct daemon *d)
{
	loop_timer_close(&d->gate_timer, NULL);
}

/* A process that a former daemon had let in is here, and has not said yet what it has out. That may
 * take long: it waits for what is being copied. */
static bool is_unheard(const struct tenant *t)
{
	list_for_each(link, (struct list *)&t->guests)
	{
		const struct guest *g = list_entry(link, struct guest, link);

		if (g->restored && g->caller && !g->stated)
			return true;
	}
	return false;
}

/* Never while some of its memory is out, or may be, even if the turns left a gate open that could
 * not be closed: memory that is being copied in would overwrite what the program writes. */
static bool may_open(const struct tenant_device *at)
{
	bool has_turn = !at->seated || at->seat.told_open;

	return has_turn && !at->shut && !at->tenant->suspended &&
	       !(at->joined && at->member.out_bytes) && !is_unheard(at->tenant);
}

void tenant_gate_open_late(struct tenant *t, uint32_t device)
{
	if (t->shown->device[device].gate != WIRE_GATE_OPEN && may_open(&t->device[device]))
		change_gate(t, device, WIRE_GATE_OPEN);
}

void tenant_gates_open_late(struct tenant *t)
{
	for (uint32_t i = 0; i < t->devices; i++)
		tenant_gate_open_late(t, i);
}

void tenant_gate_apply(struct tenant *t, uint32_t device)
{
	bool open = may_open(&t->device[device]);
	uint32_t now = t->shown->device[device].gate;

	if (open && now != WIRE_GATE_OPEN)
		change_gate(t, device, WIRE_GATE_OPEN);
	if (!open && now == WIRE_GATE_OPEN)
		start_closing(t, device);
	if (!open)
		tenant_gate_check(t, device);
}

void tenant_gate(struct tenant *t, uint32_t device, bool open, const struct gate_wait *wait)
{
	struct tenant_device *at = &t->device[device];

	answer_wait(at, "the gate was changed again before every process had drained");
	at->waiting = *wait;
	at->shut = !open;
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
