/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/time_world.h"

#include <stdlib.h>

#include "replay/time_machine.h"

void time_at(struct world *w, struct event *e, uint64_t time)
{
	turns_heap_remove(&w->events, &e->node);
	if (time != UINT64_MAX)
		turns_heap_add(&w->events, &e->node, time);
}

bool time_push(struct world *w, struct time_series *s, uint64_t value)
{
	if (s->size == s->room) {
		size_t room = s->room ? 2 * s->room : 64;
		uint64_t *values = realloc(s->values, room * sizeof(*values));

		if (!values) {
			w->failed = true;
			return false;
		}
		s->values = values;
		s->room = room;
	}
	s->values[s->size++] = value;
	return true;
}

void time_say(struct world *w, struct tenant *t, enum word word)
{
	struct event *e = w->words;

	if (e)
		w->words = e->next;
	else
		e = calloc(1, sizeof(*e));
	if (!e) {
		w->failed = true;
		return;
	}
	*e = (struct event){.kind = EVENT_WORD, .word = word, .tenant = t};
	time_at(w, e, w->now + w->setup->delay_ns);
}

/* ---- the daemon ------------------------------------------------------------------------------ */

static void pump(struct world *w)
{
	struct turns_action action;

	while (turns_next(&w->turns, &action)) {
		struct tenant *t = action.seat->owner;

		if (action.verb == TURNS_OPEN || action.verb == TURNS_CLOSE)
			time_say(w, t, action.verb == TURNS_OPEN ? WORD_OPEN : WORD_CLOSE);
		else if (action.verb == TURNS_LATE)
			turns_late(action.seat, time_guest_wants(t), w->now);
	}
	time_at(w, &w->daemon_event, turns_deadline(&w->turns));
}

static void join(struct world *w, struct tenant *t)
{
	t->there = true;
	t->open = w->setup->plain;
	if (!w->setup->plain) {
		turns_join(&t->seat, &t->turns, &w->device, t, false, w->now);
		turns_uneven(&t->seat, t->load->processes > 1, w->now);
	}
	t->said_wants = t->load->kind == TIME_BUSY;
	if (t->said_wants)
		time_say(w, t, WORD_WANTS);
	for (uint32_t i = 0; i < t->load->processes; i++) {
		struct process *p = &t->processes[i];

		if (t->load->kind != TIME_BUSY)
			time_at(w, &p->arrival, w->now + time_draw_pause(w, t->load->pause_ns));
		time_guest_put(w, p);
	}
}

static void leave(struct world *w, struct tenant *t)
{
	t->there = t->open = t->draining = false;
	for (uint32_t i = 0; i < t->load->processes; i++) {
		time_at(w, &t->processes[i].arrival, UINT64_MAX);
		t->processes[i].at.limit = 0;
		time_guest_put(w, &t->processes[i]);
	}
	if (!w->setup->plain)
		turns_leave(&t->seat, w->now);
}

static void change(struct world *w)
{
	const struct time_change *c = &w->setup->changes[w->change++];

	if (!w->setup->plain && w->tenants[c->tenant].there)
		turns_set(&w->tenants[c->tenant].turns, &c->share, w->now);
	if (w->change < w->setup->changes_size)
		time_at(w, &w->change_event, w->setup->changes[w->change].at_ns);
}

static void sample(struct world *w)
{
	size_t row = w->out->samples++ * w->setup->tenants;

	for (uint32_t i = 0; i < w->setup->tenants; i++) {
		struct tenant *t = &w->tenants[i];

		if (t->there && !w->setup->plain)
			turns_settle(&t->seat, w->now);
		w->out->served[row + i] = time_guest_served(t);
		w->out->charged[row + i] =
			w->setup->plain ? time_guest_served(t) : t->seat.charged_ns;
		w->out->entitled[row + i] = t->seat.entitled_ns;
	}
	time_at(w, &w->sample_event, w->now + w->setup->sample_ns);
}

static void on_word(struct world *w, struct event *e)
{
	struct tenant *t = e->tenant;

	if (t->there && e->word <= WORD_CLOSE)
		time_guest_hear(w, t, e->word == WORD_OPEN);
	else if (t->there && !w->setup->plain && e->word == WORD_WANTS)
		turns_wants(&t->seat, w->now);
	else if (t->there && !w->setup->plain && e->word == WORD_IDLE)
		turns_idle(&t->seat, w->now);
	else if (t->there && !w->setup->plain)
		turns_drained(&t->seat, e->word == WORD_DRAINED_WANTS, w->now);
	e->next = w->words;
	w->words = e;
}

/* ---- the run --------------------------------------------------------------------------------- */

static void happen(struct world *w, struct event *e)
{
	switch (e->kind) {
	case EVENT_WORD:
		on_word(w, e);
		break;
	case EVENT_ARRIVAL:
		time_guest_arrive(w, e->process);
		break;
	case EVENT_ENGINE:
		time_guest_on_engine(w);
		break;
	case EVENT_DAEMON:
		turns_tick(&w->turns, w->now);
		break;
	case EVENT_SAMPLE:
		sample(w);
		break;
	case EVENT_CHANGE:
		change(w);
		break;
	case EVENT_JOIN:
		join(w, e->tenant);
		break;
	case EVENT_LEAVE:
		leave(w, e->tenant);
		break;
	}
}

/* Measures the time from a tenant's last completion to the first kernel of another one. */
static void note_handover(struct world *w)
{
	struct time_process *p = time_engine_running(&w->engine);
	struct tenant *t = p ? container_of(p, struct process, at)->tenant : NULL;

	if (t && t != w->emptied && w->emptied)
		time_push(w, &w->out->handovers, w->now - w->emptied_ns);
	if (t)
		w->emptied = NULL;
}

static void run(struct world *w)
{
	while (!w->failed && w->events.first && w->events.first->key <= w->setup->length_ns) {
		struct event *e = container_of(w->events.first, struct event, node);

		w->now = e->node.key;
		turns_heap_remove(&w->events, &e->node);
		time_engine_advance(&w->engine, w->now);
		happen(w, e);
		pump(w);
		note_handover(w);
		time_at(w, &w->engine_event, time_engine_next(&w->engine));
		w->out->events++;
	}
}

static bool make_tenant(struct world *w, uint32_t index)
{
	struct tenant *t = &w->tenants[index];

	t->load = &w->setup->loads[index];
	t->processes = calloc(t->load->processes, sizeof(*t->processes));
	if (!t->processes)
		return false;
	for (uint32_t i = 0; i < t->load->processes; i++) {
		struct process *p = &t->processes[i];

		p->tenant = t;
		p->arrival = (struct event){.kind = EVENT_ARRIVAL, .tenant = t, .process = p};
		p->at.mark = UINT64_MAX;
	}
	turns_tenant_init(&w->turns, &t->turns, &t->load->share);
	t->seat = (struct turns_seat){.owner = t, .tenant = &t->turns, .device = &w->device};
	t->join = (struct event){.kind = EVENT_JOIN, .tenant = t};
	t->leave = (struct event){.kind = EVENT_LEAVE, .tenant = t};
	time_at(w, &t->join, t->load->join_ns);
	if (t->load->leave_ns)
		time_at(w, &t->leave, t->load->leave_ns);
	return true;
}

static bool make(struct world *w)
{
	const struct time_setup *setup = w->setup;
	size_t rows = setup->length_ns / setup->sample_ns + 1;
	struct time_outcome *out = w->out;

	turns_init(&w->turns, setup->tuning ? setup->tuning : &turns_usual);
	turns_device_init(&w->turns, &w->device, 0);
	time_engine_init(&w->engine, setup->slice_ns);
	w->random = setup->seed;
	w->engine_event.kind = EVENT_ENGINE;
	w->daemon_event.kind = EVENT_DAEMON;
	w->sample_event.kind = EVENT_SAMPLE;
	w->change_event.kind = EVENT_CHANGE;
	w->tenants = calloc(setup->tenants, sizeof(*w->tenants));
	out->charged = calloc(rows * setup->tenants, sizeof(uint64_t));
	out->served = calloc(rows * setup->tenants, sizeof(uint64_t));
	out->entitled = calloc(rows * setup->tenants, sizeof(uint64_t));
	out->waits = calloc(setup->tenants, sizeof(*out->waits));
	out->turns = calloc(setup->tenants, sizeof(uint64_t));
	out->longest_ns = calloc(setup->tenants, sizeof(uint64_t));
	if (!w->tenants || !out->charged || !out->served || !out->entitled || !out->waits ||
	    !out->turns || !out->longest_ns)
		return false;
	for (uint32_t i = 0; i < setup->tenants; i++) {
		if (!make_tenant(w, i))
			return false;
	}
	time_at(w, &w->sample_event, setup->sample_ns);
	if (setup->changes_size)
		time_at(w, &w->change_event, setup->changes[0].at_ns);
	return true;
}

static void unmake(struct world *w)
{
	/* The heap's events are part of what is freed below. */
	while (w->events.first) {
		struct event *e = container_of(w->events.first, struct event, node);

		turns_heap_remove(&w->events, &e->node);
		if (e->kind == EVENT_WORD)
			free(e);
	}
	for (uint32_t i = 0; w->tenants && i < w->setup->tenants; i++) {
		struct tenant *t = &w->tenants[i];

		if (w->out->turns && w->out->longest_ns) {
			w->out->turns[i] = t->seat.turns;
			w->out->longest_ns[i] = t->seat.longest_ns;
		}
		for (uint32_t k = 0; t->processes && k < t->load->processes; k++)
			free(t->processes[k].queue);
		free(t->processes);
	}
	while (w->words) {
		struct event *e = w->words;

		w->words = e->next;
		free(e);
	}
	free(w->tenants);
}

int time_world_run(const struct time_setup *setup, struct time_outcome *ret_outcome,
		   struct fault *why)
{
	struct time_outcome out = {0};
	struct world w = {.setup = setup, .out = &out};

	if (make(&w))
		run(&w);
	else
		w.failed = true;
	unmake(&w);
	if (w.failed) {
		time_outcome_done(&out, setup->tenants);
		return fault_set(why, -ENOMEM, "out of memory");
	}
	*ret_outcome = out;
	return 0;
}
