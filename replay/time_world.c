/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/time_world.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "replay/time_engine.h"

#define MS 1000000ull

static const uint64_t long_gap_ns = 10 * MS;

/* What can happen at a time. Messages between guest and daemon are allocated when they are
 * needed. */
enum kind {
	EVENT_WORD,
	EVENT_ARRIVAL,
	EVENT_ENGINE,
	EVENT_DAEMON,
	EVENT_SAMPLE,
	EVENT_CHANGE,
	EVENT_JOIN,
	EVENT_LEAVE
};

enum word { WORD_OPEN, WORD_CLOSE, WORD_WANTS, WORD_IDLE, WORD_DRAINED, WORD_DRAINED_WANTS };

struct tenant;

struct event {
	struct turns_node node;
	enum kind kind;
	enum word word;
	struct tenant *tenant;
	struct process *process;
	struct event *next; /* in the list of free events */
};

struct request {
	uint64_t end, arrival;
};

struct process {
	struct time_process at;
	struct tenant *tenant;
	uint64_t arrived;
	struct request *queue;
	size_t first, count, room; /* room: a power of two */
	struct event arrival;
};

struct tenant {
	const struct time_load *load;
	struct turns_tenant turns;
	struct turns_seat seat;
	struct process *processes;
	bool there, open, draining, said_idle, said_wants;
	uint64_t empty_ns, others_at_empty;
	struct event join, leave;
};

struct world {
	const struct time_setup *setup;
	struct time_outcome *out;
	struct turns turns;
	struct turns_device device;
	struct time_engine engine;
	struct tenant *tenants;
	struct turns_heap events;
	struct event engine_event, daemon_event, sample_event, change_event;
	struct event *words; /* free events */
	uint64_t now, random;
	uint32_t change;
	struct tenant *emptied; /* the tenant that ran out of work at emptied_ns
				 * while others wanted to run */
	uint64_t emptied_ns;
	struct tenant *ran;
	bool failed; /* out of memory */
};

static void at(struct world *w, struct event *e, uint64_t time)
{
	turns_heap_remove(&w->events, &e->node);
	if (time != UINT64_MAX)
		turns_heap_add(&w->events, &e->node, time);
}

/* splitmix64 */
static uint64_t draw(struct world *w)
{
	uint64_t z = w->random += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

static uint64_t draw_pause(struct world *w, uint64_t mean)
{
	double u = ((double)(draw(w) >> 11) + 1) / 9007199254740993.0;

	return (uint64_t)(-log(u) * (double)mean) + 1;
}

static bool push(struct world *w, struct time_series *s, uint64_t value)
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

/* ---- messages -------------------------------------------------------------------------------- */

static void say(struct world *w, struct tenant *t, enum word word)
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
	at(w, e, w->now + w->setup->delay_ns);
}

/* ---- guests ---------------------------------------------------------------------------------- */

static bool has_backlog(const struct process *p)
{
	return p->tenant->load->kind == TIME_BUSY || p->at.served < p->arrived;
}

static bool wants(const struct tenant *t)
{
	for (uint32_t i = 0; i < t->load->processes; i++) {
		if (has_backlog(&t->processes[i]))
			return true;
	}
	return false;
}

static bool rests(const struct tenant *t)
{
	for (uint32_t i = 0; i < t->load->processes; i++) {
		if (list_linked(&t->processes[i].at.ring))
			return false;
	}
	return true;
}

static bool others_want(const struct world *w, const struct tenant *t)
{
	for (uint32_t i = 0; i < w->setup->tenants; i++) {
		if (&w->tenants[i] != t && w->tenants[i].there && wants(&w->tenants[i]))
			return true;
	}
	return false;
}

static uint64_t served(const struct tenant *t)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < t->load->processes; i++)
		sum += t->processes[i].at.served;
	return sum;
}

static void put(struct world *w, struct process *p)
{
	const struct time_load *load = p->tenant->load;
	bool busy = load->kind == TIME_BUSY;

	if (p->tenant->open)
		p->at.limit = busy ? UINT64_MAX : p->arrived;
	p->at.mark = p->count ? p->queue[p->first].end : UINT64_MAX;
	time_engine_put(&w->engine, &p->at);
}

/* Limits the process to what it has submitted, because submitted work cannot be withdrawn: the
 * running kernel, and those that wait behind it. */
static void cut(struct process *p, uint64_t flight_ns)
{
	const struct time_load *load = p->tenant->load;
	uint64_t kernels = flight_ns / load->processes / load->kernel_ns,
		 depth = kernels ? kernels : 1;
	uint64_t end = (p->at.served / load->kernel_ns + depth) * load->kernel_ns;

	if (load->kind == TIME_BUSY || end < p->arrived)
		p->at.limit = end;
	else
		p->at.limit = p->arrived;
}

static void say_drained(struct world *w, struct tenant *t)
{
	if (!t->draining || !rests(t))
		return;
	t->draining = false;
	t->said_wants = wants(t);
	say(w, t, t->said_wants ? WORD_DRAINED_WANTS : WORD_DRAINED);
}

static void say_idle(struct world *w, struct tenant *t)
{
	if (!t->open || t->said_idle || wants(t))
		return;
	t->said_idle = true;
	say(w, t, WORD_IDLE);
}

static void on_empty(struct world *w, struct tenant *t)
{
	t->empty_ns = w->now;
	t->others_at_empty = w->engine.served - served(t);
	if (others_want(w, t)) {
		w->emptied = t;
		w->emptied_ns = w->now;
	}
}

static void hear(struct world *w, struct tenant *t, bool open)
{
	t->open = open;
	t->draining = !open;
	t->said_idle = t->said_wants = false;
	for (uint32_t i = 0; i < t->load->processes; i++) {
		if (!open)
			cut(&t->processes[i], w->setup->flight_ns);
		put(w, &t->processes[i]);
	}
	if (open)
		say_idle(w, t);
	else
		say_drained(w, t);
}

static void note_gap(struct world *w, const struct tenant *t)
{
	uint64_t gap = w->now - t->empty_ns;

	if (gap <= long_gap_ns || !t->empty_ns)
		return;
	w->out->gaps_ns += gap;
	w->out->harvested_ns += w->engine.served - served(t) - t->others_at_empty;
}

static bool enqueue(struct world *w, struct process *p)
{
	size_t room = p->room ? 2 * p->room : 16;
	struct request *queue;

	if (p->count == p->room) {
		queue = calloc(room, sizeof(*queue));
		if (!queue) {
			w->failed = true;
			return false;
		}
		for (size_t i = 0; i < p->count; i++)
			queue[i] = p->queue[(p->first + i) & (p->room - 1)];
		free(p->queue);
		p->queue = queue;
		p->first = 0;
		p->room = room;
	}
	p->queue[(p->first + p->count++) & (p->room - 1)] = (struct request){p->arrived, w->now};
	return true;
}

static void arrive(struct world *w, struct process *p)
{
	struct tenant *t = p->tenant;
	uint64_t kernel = t->load->kernel_ns;

	if (!wants(t))
		note_gap(w, t);
	if (w->emptied == t)
		w->emptied = NULL;
	p->arrived += (t->load->work_ns + kernel - 1) / kernel * kernel;
	if (!enqueue(w, p))
		return;
	if (t->load->kind == TIME_POISSON)
		at(w, &p->arrival, w->now + draw_pause(w, t->load->pause_ns));
	put(w, p);
	if (t->open ? t->said_idle : !t->draining && !t->said_wants) {
		t->said_wants = true;
		t->said_idle = false;
		say(w, t, WORD_WANTS);
	}
}

/* The running process has reached its mark or its limit. */
static void look(struct world *w, struct process *p)
{
	struct tenant *t = p->tenant;

	while (p->count && p->queue[p->first].end <= p->at.served) {
		if (!push(w, &w->out->waits[t - w->tenants], w->now - p->queue[p->first].arrival))
			return;
		p->first = (p->first + 1) & (p->room - 1);
		p->count--;
		if (t->load->kind == TIME_PULSE)
			at(w, &p->arrival, w->now + t->load->pause_ns);
	}
	put(w, p);
	if (p->at.served >= p->at.limit) {
		if (!wants(t))
			on_empty(w, t);
		say_idle(w, t);
		say_drained(w, t);
	}
}

static void on_engine(struct world *w)
{
	struct time_process *running = time_engine_running(&w->engine);

	if (running)
		look(w, container_of(running, struct process, at));
	time_engine_turn(&w->engine);
}

/* ---- the daemon ------------------------------------------------------------------------------ */

static void pump(struct world *w)
{
	struct turns_action action;

	while (turns_next(&w->turns, &action)) {
		struct tenant *t = action.seat->owner;

		if (action.verb == TURNS_OPEN || action.verb == TURNS_CLOSE)
			say(w, t, action.verb == TURNS_OPEN ? WORD_OPEN : WORD_CLOSE);
		else if (action.verb == TURNS_LATE)
			turns_late(action.seat, wants(t), w->now);
	}
	at(w, &w->daemon_event, turns_deadline(&w->turns));
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
		say(w, t, WORD_WANTS);
	for (uint32_t i = 0; i < t->load->processes; i++) {
		struct process *p = &t->processes[i];

		if (t->load->kind != TIME_BUSY)
			at(w, &p->arrival, w->now + draw_pause(w, t->load->pause_ns));
		put(w, p);
	}
}

static void leave(struct world *w, struct tenant *t)
{
	t->there = t->open = t->draining = false;
	for (uint32_t i = 0; i < t->load->processes; i++) {
		at(w, &t->processes[i].arrival, UINT64_MAX);
		t->processes[i].at.limit = 0;
		put(w, &t->processes[i]);
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
		at(w, &w->change_event, w->setup->changes[w->change].at_ns);
}

static void sample(struct world *w)
{
	size_t row = w->out->samples++ * w->setup->tenants;

	for (uint32_t i = 0; i < w->setup->tenants; i++) {
		struct tenant *t = &w->tenants[i];

		if (t->there && !w->setup->plain)
			turns_settle(&t->seat, w->now);
		w->out->served[row + i] = served(t);
		w->out->charged[row + i] = w->setup->plain ? served(t) : t->seat.charged_ns;
		w->out->entitled[row + i] = t->seat.entitled_ns;
	}
	at(w, &w->sample_event, w->now + w->setup->sample_ns);
}

static void on_word(struct world *w, struct event *e)
{
	struct tenant *t = e->tenant;

	if (t->there && e->word <= WORD_CLOSE)
		hear(w, t, e->word == WORD_OPEN);
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
		arrive(w, e->process);
		break;
	case EVENT_ENGINE:
		on_engine(w);
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
		push(w, &w->out->handovers, w->now - w->emptied_ns);
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
		at(w, &w->engine_event, time_engine_next(&w->engine));
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
	at(w, &t->join, t->load->join_ns);
	if (t->load->leave_ns)
		at(w, &t->leave, t->load->leave_ns);
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
	at(w, &w->sample_event, setup->sample_ns);
	if (setup->changes_size)
		at(w, &w->change_event, setup->changes[0].at_ns);
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
