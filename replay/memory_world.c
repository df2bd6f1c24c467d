/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/memory_world.h"

#include <stdlib.h>

#include "replay/memory_machine.h"

void memory_at(struct world *w, struct event *e, uint64_t time)
{
	turns_heap_remove(&w->events, &e->node);
	if (time != UINT64_MAX)
		turns_heap_add(&w->events, &e->node, time);
}

void memory_later(struct world *w, struct tenant *t, enum kind kind, uint64_t bytes,
		  uint64_t copied, uint64_t time)
{
	struct event *e = w->free;

	if (e)
		w->free = e->next;
	else
		e = calloc(1, sizeof(*e));
	if (!e) {
		w->failed = true;
		return;
	}
	*e = (struct event){.kind = kind, .tenant = t, .bytes = bytes, .copied = copied};
	memory_at(w, e, time);
}

void memory_say(struct world *w, struct tenant *t, enum kind kind, uint64_t bytes, uint64_t copied)
{
	/* Without turns there is no daemon. */
	if (w->setup->plain)
		return;
	memory_later(w, t, kind, bytes, copied, w->now + w->setup->delay_ns);
}

/* ---- the daemon ------------------------------------------------------------------------------ */

/* Records a handover that is complete, with what moved during it. */
static void add_span(struct world *w)
{
	struct residency *r = &w->residency;
	struct memory_outcome *o = w->out;

	if (o->spans_size == o->spans_room) {
		size_t room = o->spans_room ? 2 * o->spans_room : 64;
		struct memory_span *spans = realloc(o->spans, room * sizeof(*spans));

		if (!spans) {
			w->failed = true;
			return;
		}
		o->spans = spans;
		o->spans_room = room;
	}
	o->spans[o->spans_size++] = (struct memory_span){
		.began_ns = w->now - r->cost_ns,
		.took_ns = r->cost_ns,
		.left_bytes = r->left_bytes - w->left_at,
		.came_bytes = r->came_bytes - w->came_at,
	};
}

static void note_set(struct world *w)
{
	struct residency *r = &w->residency;

	if (r->sets != w->sets)
		add_span(w);
	w->sets = r->sets;
	if (r->moving_since_ns == w->moving_since_ns)
		return;
	w->moving_since_ns = r->moving_since_ns;
	w->left_at = r->left_bytes;
	w->came_at = r->came_bytes;
}

static void obey(struct world *w, const struct residency_action *a)
{
	struct tenant *t = a->member->owner;

	if (a->verb == RESIDENCY_EVICT)
		memory_say(w, t, EVENT_EVICT, a->bytes, 0);
	else if (a->verb == RESIDENCY_CREDIT)
		memory_say(w, t, EVENT_CREDIT, a->bytes, 0);
	else if (a->verb == RESIDENCY_STOP)
		memory_say(w, t, EVENT_STOP, 0, 0);
	else if (a->verb == RESIDENCY_DROP)
		memory_say(w, t, EVENT_DROP, a->bytes, 0);
	if (a->verb == RESIDENCY_GRANT) {
		memory_guest_allocated(t, a->bytes);
		t->asked = 0;
		memory_guest_put(w, t);
		memory_guest_see_stall(w, t);
	}
}

static void obey_turn(struct world *w, const struct turns_action *a)
{
	struct tenant *t = a->seat->owner;

	if (a->verb == TURNS_OPEN || a->verb == TURNS_CLOSE)
		memory_say(w, t, a->verb == TURNS_OPEN ? EVENT_OPEN : EVENT_CLOSE, 0, 0);
	else if (a->verb == TURNS_LATE)
		turns_late(a->seat, false, w->now);
}

static void pump(struct world *w)
{
	struct residency_action move;
	struct turns_action turn;

	for (;;) {
		while (turns_next(&w->turns, &turn))
			obey_turn(w, &turn);
		if (residency_next(&w->residency, w->now, &move))
			obey(w, &move);
		else if (turns_next(&w->turns, &turn))
			obey_turn(w, &turn);
		else
			break;
	}
	note_set(w);
	memory_at(w, &w->daemon_event,
		  least(turns_deadline(&w->turns), residency_deadline(&w->residency)));
}

static void join(struct world *w, struct tenant *t)
{
	t->there = true;
	t->began_ns = t->alone_at_ns = w->now;
	t->open = w->setup->plain;
	t->said_idle = false;
	if (!w->setup->plain) {
		turns_join(&t->seat, &t->turns, &w->device, t, false, w->now);
		residency_join(&w->residency, &t->member, &t->seat, t, UINT64_MAX, w->now);
	}
	if (t->load->steps) {
		/* memory_guest_step() advances to step 0. */
		t->at_step = (size_t)-1;
		memory_guest_step(w, t);
		return;
	}
	memory_guest_ask(w, t, t->load->set_bytes);
	memory_guest_begin_burst(w, t);
}

/* ---- the run --------------------------------------------------------------------------------- */

static void tick(struct world *w)
{
	turns_tick(&w->turns, w->now);
	residency_tick(&w->residency, w->now);
}

static void hear_need(struct world *w, struct event *e)
{
	struct tenant *t = e->tenant;
	bool wanted = e->kind == EVENT_WANTS || e->bytes;

	if (e->kind == EVENT_WANTS)
		turns_wants(&t->seat, w->now);
	else if (e->kind == EVENT_IDLE)
		turns_idle(&t->seat, w->now);
	else
		turns_drained(&t->seat, wanted, w->now);
	if (wanted)
		residency_wants(&t->member, w->now);
	else
		residency_idle(&t->member, w->now);
}

static void hear_gate(struct world *w, struct event *e)
{
	memory_guest_hear_gate(w, e->tenant, e->kind == EVENT_OPEN);
}

static void hear_evict(struct world *w, struct event *e)
{
	e->tenant->order += e->bytes;
	e->tenant->pending_stop = false;
	memory_guest_copy_out(w, e->tenant);
}

static void hear_ready(struct world *w, struct event *e)
{
	e->tenant->copying = false;
	memory_guest_copy_out(w, e->tenant);
}

static void hear_credit(struct world *w, struct event *e)
{
	e->tenant->credit += e->bytes;
	memory_guest_map_in(w, e->tenant, e->bytes);
}

/* The guest finishes copying and unmapping the current chunk, then it answers. */
static void hear_stop(struct world *w, struct event *e)
{
	struct tenant *t = e->tenant;
	uint64_t done = t->unmap_ns > w->now ? t->unmap_ns : w->now;

	t->order = 0;
	t->pending_stop = true;
	if (t->copying)
		memory_later(w, t, EVENT_STOP, 0, 0,
			     w->now + w->setup->unmap_ns + w->setup->delay_ns);
	else
		memory_later(w, t, EVENT_STOPPED, 0, 0, done + 2 * w->setup->delay_ns);
}

static void hear_drop(struct world *w, struct event *e)
{
	e->tenant->ever_out = e->tenant->in_store;
	residency_dropped(&e->tenant->member, e->bytes, w->now);
}

static void hear_mapped(struct world *w, struct event *e)
{
	memory_guest_mapped(w, e->tenant, e->bytes);
}

static void hear_left(struct world *w, struct event *e)
{
	residency_left(&e->tenant->member, e->bytes, e->copied, w->now);
}

static void hear_stopped(struct world *w, struct event *e)
{
	e->tenant->pending_stop = false;
	residency_stopped(&e->tenant->member, w->now);
}

/* Messages between guest and daemon, and what a guest waits for; the other kinds are happen()'s. */
static void (*const hear[EVENT_KINDS])(struct world *w, struct event *e) = {
	[EVENT_OPEN] = hear_gate,	[EVENT_CLOSE] = hear_gate,    [EVENT_EVICT] = hear_evict,
	[EVENT_READY] = hear_ready,	[EVENT_CREDIT] = hear_credit, [EVENT_STOP] = hear_stop,
	[EVENT_DROP] = hear_drop,	[EVENT_MAPPED] = hear_mapped, [EVENT_WANTS] = hear_need,
	[EVENT_IDLE] = hear_need,	[EVENT_DRAINED] = hear_need,  [EVENT_LEFT] = hear_left,
	[EVENT_STOPPED] = hear_stopped,
};

static bool is_own(const struct event *e)
{
	return e->kind < EVENT_ARRIVAL;
}

static void happen(struct world *w, struct event *e)
{
	struct tenant *t = e->tenant;

	if (e->kind == EVENT_ENGINE)
		memory_guest_on_engine(w);
	else if (e->kind == EVENT_LINK)
		memory_guest_on_link(w);
	else if (e->kind == EVENT_DAEMON)
		tick(w);
	else if (e->kind == EVENT_STEP && !t->there)
		join(w, t);
	else if (e->kind == EVENT_STEP)
		memory_guest_step(w, t);
	else if (e->kind == EVENT_ARRIVAL && t->there && t->load->steps)
		memory_guest_request(w, t);
	else if (e->kind == EVENT_ARRIVAL && t->there)
		memory_guest_begin_burst(w, t);
	else if (t->there && hear[e->kind])
		hear[e->kind](w, e);
	if (is_own(e)) {
		e->next = w->free;
		w->free = e;
	}
}

static void run(struct world *w)
{
	while (!w->failed && w->jobs && w->events.first &&
	       w->events.first->key <= w->setup->length_ns) {
		struct event *e = container_of(w->events.first, struct event, node);

		w->now = e->node.key;
		turns_heap_remove(&w->events, &e->node);
		time_engine_advance(&w->engine, w->now);
		memory_link_advance(&w->link, w->now);
		happen(w, e);
		if (!w->setup->plain)
			pump(w);
		memory_at(w, &w->engine_event, time_engine_next(&w->engine));
		memory_at(w, &w->link_event, memory_link_next(&w->link));
		w->out->events++;
		if (w->residency.resident_bytes > w->out->resident_most)
			w->out->resident_most = w->residency.resident_bytes;
		if (w->residency.used_bytes > w->out->store_most)
			w->out->store_most = w->residency.used_bytes;
	}
}

static bool make(struct world *w)
{
	const struct memory_setup *s = w->setup;

	turns_init(&w->turns, &s->turns);
	turns_device_init(&w->turns, &w->device, 0);
	residency_init(&w->residency, &s->residency, s->device_bytes, s->store_bytes);
	time_engine_init(&w->engine, s->slice_ns);
	memory_link_init(&w->link, s->alone_gbps, s->both_gbps);
	w->engine_event.kind = EVENT_ENGINE;
	w->link_event.kind = EVENT_LINK;
	w->daemon_event.kind = EVENT_DAEMON;
	w->jobs = s->tenants;
	w->tenants = calloc(s->tenants, sizeof(*w->tenants));
	w->out->tenants = calloc(s->tenants, sizeof(*w->out->tenants));
	if (!w->tenants || !w->out->tenants)
		return false;
	for (uint32_t i = 0; i < s->tenants; i++) {
		struct tenant *t = &w->tenants[i];

		t->load = &s->loads[i];
		t->out = &w->out->tenants[i];
		t->at.mark = UINT64_MAX;
		t->arrival = (struct event){.kind = EVENT_ARRIVAL, .tenant = t};
		t->step = (struct event){.kind = EVENT_STEP, .tenant = t};
		turns_tenant_init(&w->turns, &t->turns, &t->load->share);
		memory_at(w, &t->step, t->load->join_ns);
	}
	return true;
}

static void note_tenants(struct world *w)
{
	for (uint32_t i = 0; i < w->setup->tenants && w->tenants && w->out->tenants; i++) {
		struct tenant *t = &w->tenants[i];

		t->out->served_ns = t->at.served;
		t->out->left_bytes = t->member.left_bytes;
		t->out->came_bytes = t->member.came_bytes;
		t->out->copied_bytes = t->member.copied_bytes;
	}
	w->out->left_bytes = w->residency.left_bytes;
	w->out->came_bytes = w->residency.came_bytes;
	w->out->copied_bytes = w->residency.copied_bytes;
	w->out->sets = w->residency.sets;
	if (!w->out->ended_ns)
		w->out->ended_ns = w->now;
}

static void unmake(struct world *w)
{
	while (w->events.first) {
		struct event *e = container_of(w->events.first, struct event, node);

		turns_heap_remove(&w->events, &e->node);
		if (is_own(e))
			free(e);
	}
	for (int way = 0; way < MEMORY_WAYS; way++) {
		while (w->link.ways[way].next && !list_empty(&w->link.ways[way])) {
			struct list *first = w->link.ways[way].next;

			list_remove(first);
			free(container_of(list_entry(first, struct memory_copy, queue),
					  struct chunk, copy));
		}
	}
	while (w->free) {
		struct event *e = w->free;

		w->free = e->next;
		free(e);
	}
	free(w->tenants);
}

int memory_world_run(const struct memory_setup *setup, struct memory_outcome *ret_outcome,
		     struct fault *why)
{
	struct memory_outcome out = {0};
	struct world w = {.setup = setup, .out = &out};

	if (make(&w))
		run(&w);
	else
		w.failed = true;
	note_tenants(&w);
	unmake(&w);
	if (w.failed) {
		memory_outcome_done(&out, setup->tenants);
		return fault_set(why, -ENOMEM, "out of memory");
	}
	*ret_outcome = out;
	return 0;
}
