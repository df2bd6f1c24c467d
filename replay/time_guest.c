/* SPDX-License-Identifier: Apache-2.0 */
/* What arrives at the guests, what they submit, and what they tell the daemon. */
#include <math.h>
#include <stdlib.h>

#include "replay/draw.h"
#include "replay/time_machine.h"

static const uint64_t long_gap_ns = 10000000;

uint64_t time_draw_pause(struct world *w, uint64_t mean)
{
	double u = ((double)(draw(&w->random) >> 11) + 1) / 9007199254740993.0;

	return (uint64_t)(-log(u) * (double)mean) + 1;
}

static bool has_backlog(const struct process *p)
{
	return p->tenant->load->kind == TIME_BUSY || p->at.served < p->arrived;
}

bool time_guest_wants(const struct tenant *t)
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
		if (&w->tenants[i] != t && w->tenants[i].there && time_guest_wants(&w->tenants[i]))
			return true;
	}
	return false;
}

uint64_t time_guest_served(const struct tenant *t)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < t->load->processes; i++)
		sum += t->processes[i].at.served;
	return sum;
}

void time_guest_put(struct world *w, struct process *p)
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
	t->said_wants = time_guest_wants(t);
	time_say(w, t, t->said_wants ? WORD_DRAINED_WANTS : WORD_DRAINED);
}

static void say_idle(struct world *w, struct tenant *t)
{
	if (!t->open || t->said_idle || time_guest_wants(t))
		return;
	t->said_idle = true;
	time_say(w, t, WORD_IDLE);
}

static void on_empty(struct world *w, struct tenant *t)
{
	t->empty_ns = w->now;
	t->others_at_empty = w->engine.served - time_guest_served(t);
	if (others_want(w, t)) {
		w->emptied = t;
		w->emptied_ns = w->now;
	}
}

void time_guest_hear(struct world *w, struct tenant *t, bool open)
{
	t->open = open;
	t->draining = !open;
	t->said_idle = t->said_wants = false;
	for (uint32_t i = 0; i < t->load->processes; i++) {
		if (!open)
			cut(&t->processes[i], w->setup->flight_ns);
		time_guest_put(w, &t->processes[i]);
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
	w->out->harvested_ns += w->engine.served - time_guest_served(t) - t->others_at_empty;
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

void time_guest_arrive(struct world *w, struct process *p)
{
	struct tenant *t = p->tenant;
	uint64_t kernel = t->load->kernel_ns;

	if (!time_guest_wants(t))
		note_gap(w, t);
	if (w->emptied == t)
		w->emptied = NULL;
	p->arrived += (t->load->work_ns + kernel - 1) / kernel * kernel;
	if (!enqueue(w, p))
		return;
	if (t->load->kind == TIME_POISSON)
		time_at(w, &p->arrival, w->now + time_draw_pause(w, t->load->pause_ns));
	time_guest_put(w, p);
	if (t->open ? t->said_idle : !t->draining && !t->said_wants) {
		t->said_wants = true;
		t->said_idle = false;
		time_say(w, t, WORD_WANTS);
	}
}

/* The running process has reached its mark or its limit. */
static void look(struct world *w, struct process *p)
{
	struct tenant *t = p->tenant;

	while (p->count && p->queue[p->first].end <= p->at.served) {
		if (!time_push(w, &w->out->waits[t - w->tenants],
			       w->now - p->queue[p->first].arrival))
			return;
		p->first = (p->first + 1) & (p->room - 1);
		p->count--;
		if (t->load->kind == TIME_PULSE)
			time_at(w, &p->arrival, w->now + t->load->pause_ns);
	}
	time_guest_put(w, p);
	if (p->at.served >= p->at.limit) {
		if (!time_guest_wants(t))
			on_empty(w, t);
		say_idle(w, t);
		say_drained(w, t);
	}
}

void time_guest_on_engine(struct world *w)
{
	struct time_process *running = time_engine_running(&w->engine);

	if (running)
		look(w, container_of(running, struct process, at));
	time_engine_turn(&w->engine);
}
