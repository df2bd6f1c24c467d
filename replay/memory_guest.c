/* SPDX-License-Identifier: Apache-2.0 */
/* A tenant: what it runs, allocates and frees, and how a guest moves its blocks. */
#include <stdlib.h>

#include "replay/memory_machine.h"

/* ---- kernels --------------------------------------------------------------------------------- */

static bool wants(const struct tenant *t)
{
	return t->at.served < t->arrived;
}

void memory_guest_put(struct world *w, struct tenant *t)
{
	if (t->open && !t->asked)
		t->at.limit = t->arrived;
	t->at.mark = t->burst_ends ? t->burst_ends : UINT64_MAX;
	time_engine_put(&w->engine, &t->at);
}

/* Limits the tenant to what it has submitted (flight_ns of kernels, at least one), because
 * submitted work cannot be withdrawn. */
static void cut(struct world *w, struct tenant *t)
{
	uint64_t kernel = t->load->kernel_ns, depth = w->setup->flight_ns / kernel;
	uint64_t end = (t->at.served / kernel + (depth ? depth : 1)) * kernel;

	t->at.limit = least(end, t->arrived);
}

void memory_guest_see_stall(struct world *w, struct tenant *t)
{
	bool stalled = wants(t) && (!t->open || t->asked) && t->there;
	uint64_t waited;

	if (stalled && !t->stalled_ns)
		t->stalled_ns = w->now;
	if (stalled || !t->stalled_ns)
		return;
	waited = w->now - t->stalled_ns;
	t->stalled_ns = 0;
	if (waited > t->out->longest_ns)
		t->out->longest_ns = waited;
}

static void say_idle(struct world *w, struct tenant *t)
{
	if (!t->open || t->said_idle || wants(t))
		return;
	t->said_idle = true;
	memory_say(w, t, EVENT_IDLE, 0, 0);
}

static void say_drained(struct world *w, struct tenant *t)
{
	memory_guest_see_stall(w, t);
	if (!t->draining || list_linked(&t->at.ring))
		return;
	t->draining = false;
	t->said_wants = wants(t);
	memory_say(w, t, EVENT_DRAINED, t->said_wants, 0);
}

static void arrive(struct world *w, struct tenant *t, uint64_t work)
{
	uint64_t kernel = t->load->kernel_ns;

	t->arrived += (work + kernel - 1) / kernel * kernel;
	t->out->asked_ns = t->arrived;
	memory_guest_put(w, t);
	memory_guest_see_stall(w, t);
	if (!w->setup->plain && (t->open ? t->said_idle : !t->draining && !t->said_wants)) {
		t->said_wants = true;
		t->said_idle = false;
		memory_say(w, t, EVENT_WANTS, 0, 0);
	}
}

/* ---- jobs ------------------------------------------------------------------------------------ */

void memory_guest_begin_burst(struct world *w, struct tenant *t)
{
	uint64_t rest = t->load->work_ns - least(t->load->work_ns, t->at.served);

	arrive(w, t, least(t->load->burst_ns, rest));
	t->burst_ends = t->arrived;
	memory_guest_put(w, t);
}

static void leave(struct world *w, struct tenant *t)
{
	t->there = t->open = false;
	t->out->ended_ns = w->now;
	w->jobs--;
	if (!w->jobs)
		w->out->ended_ns = w->now;
	if (w->setup->plain)
		return;
	/* The host clears its part of the store at once, in parallel to everything else. */
	residency_cleared(&w->residency, residency_leave(&t->member, w->now), w->now);
	turns_leave(&t->seat, w->now);
}

static void end_burst(struct world *w, struct tenant *t)
{
	t->burst_ends = 0;
	memory_guest_put(w, t);
	if (t->at.served >= t->load->work_ns)
		leave(w, t);
	else
		memory_at(w, &t->arrival, w->now + t->load->pause_ns);
}

static void see_burst(struct world *w, struct tenant *t)
{
	t->out->served_ns = t->at.served;
	if (t->burst_ends && t->at.served >= t->burst_ends)
		end_burst(w, t);
}

void memory_guest_hear_gate(struct world *w, struct tenant *t, bool open)
{
	/* The burst may have ended at this very time. */
	see_burst(w, t);
	if (!t->there)
		return;
	t->open = open;
	t->draining = !open;
	t->said_idle = t->said_wants = false;
	if (!open)
		cut(w, t);
	memory_guest_put(w, t);
	memory_guest_see_stall(w, t);
	if (open)
		say_idle(w, t);
	else
		say_drained(w, t);
}

void memory_guest_on_engine(struct world *w)
{
	struct time_process *p = time_engine_running(&w->engine);

	if (p) {
		struct tenant *t = container_of(p, struct tenant, at);

		see_burst(w, t);
		memory_guest_put(w, t);
		if (t->there && p->served >= p->limit) {
			say_idle(w, t);
			say_drained(w, t);
		}
	}
	time_engine_turn(&w->engine);
}

/* ---- recorded loads -------------------------------------------------------------------------- */

static void pass_alone(struct world *w, struct tenant *t)
{
	uint64_t passed = w->now - t->alone_at_ns;

	t->alone_at_ns = w->now;
	t->alone_backlog -= least(t->alone_backlog, passed);
}

void memory_guest_request(struct world *w, struct tenant *t)
{
	uint64_t work = least(t->load->request_ns, t->step_work);

	if (!work || t->at_step + 1 >= t->load->steps_size)
		return;
	pass_alone(w, t);
	t->alone_backlog += work;
	t->step_work -= work;
	t->done_of_step += work;
	arrive(w, t, work);
	if (t->step_work) {
		uint64_t end = t->load->steps[t->at_step + 1].at_ns;

		memory_at(w, &t->arrival, w->now + (end - w->now) / (t->requests--));
	}
}

void memory_guest_allocated(struct tenant *t, uint64_t bytes)
{
	t->on_device += bytes;
}

/* The thread that waits for memory is also the one that would submit work, so
 * nothing more is submitted. */
static void wait_for_memory(struct world *w, struct tenant *t, uint64_t bytes)
{
	t->asked = bytes;
	if (t->open)
		cut(w, t);
	memory_guest_put(w, t);
	memory_guest_see_stall(w, t);
}

void memory_guest_ask(struct world *w, struct tenant *t, uint64_t bytes)
{
	int r = 0;

	if (!bytes || t->asked)
		return;
	if (!w->setup->plain)
		r = residency_ask(&t->member, bytes, w->now);
	if (r == 0)
		memory_guest_allocated(t, bytes);
	else if (r == RESIDENCY_WAITS)
		wait_for_memory(w, t, bytes);
	else
		t->out->refused++;
}

static void shrink(struct world *w, struct tenant *t, uint64_t bytes)
{
	uint64_t here = least(bytes, t->on_device), out = least(bytes - here, t->in_store);

	t->on_device -= here;
	t->in_store -= out;
	if (!w->setup->plain)
		residency_free(&t->member, here, out, w->now);
	t->order = least(t->order, t->on_device);
	t->credit = least(t->credit, t->in_store);
}

void memory_guest_step(struct world *w, struct tenant *t)
{
	uint64_t has = t->on_device + t->in_store + t->asked, backlog, alone;
	const struct memory_step *s;

	pass_alone(w, t);
	backlog = t->arrived - t->at.served;
	alone = t->alone_backlog;
	if (backlog > alone)
		t->out->deferred_ns += least(backlog - alone, t->done_of_step);
	t->done_of_step = 0;
	if (++t->at_step >= t->load->steps_size) {
		leave(w, t);
		return;
	}
	s = &t->load->steps[t->at_step];
	/* Blocks that are being moved are not freed; the next step frees them. */
	if (s->bytes > has)
		memory_guest_ask(w, t, s->bytes - has);
	else if (!t->copying && !t->order && !t->credit)
		shrink(w, t, has - s->bytes);
	if (t->at_step + 1 < t->load->steps_size) {
		uint64_t length = t->load->steps[t->at_step + 1].at_ns - s->at_ns;

		t->step_work = s->work_ns;
		t->requests = (s->work_ns + t->load->request_ns - 1) / t->load->request_ns;
		memory_at(w, &t->step, s->at_ns + length);
		if (t->requests)
			memory_at(w, &t->arrival, w->now + length / (2 * t->requests));
	} else {
		memory_at(w, &t->step, w->now + 1);
	}
}

/* ---- movement -------------------------------------------------------------------------------- */

static struct chunk *chunk_new(struct world *w, struct tenant *t, uint64_t bytes)
{
	struct chunk *c = calloc(1, sizeof(*c));

	if (!c) {
		w->failed = true;
		return NULL;
	}
	c->tenant = t;
	c->bytes = bytes;
	return c;
}

/* Returns the time from which the store has `bytes` bytes ready for the tenant. */
static uint64_t prepared_at(const struct world *w, const struct tenant *t, uint64_t bytes)
{
	double ns = 1 / w->setup->pin_gbps + 1 / w->setup->clear_gbps;

	return t->began_ns + (uint64_t)(ns * (double)bytes);
}

void memory_guest_copy_out(struct world *w, struct tenant *t)
{
	uint64_t bytes = least(least(t->order, t->on_device), w->residency.tuning.chunk_bytes);
	uint64_t fresh = t->ever_out > t->in_store ? t->ever_out - t->in_store : 0, ready;
	struct chunk *c;

	if (t->copying || !bytes || t->pending_stop)
		return;
	ready = fresh < bytes ? prepared_at(w, t, t->in_store + bytes) : 0;
	if (ready > w->now) {
		memory_later(w, t, EVENT_READY, 0, 0, ready);
		t->copying = true;
		return;
	}
	c = chunk_new(w, t, bytes);
	if (!c)
		return;
	/* Copies everything but the clean bytes of which the store has a former copy. */
	c->copied = bytes - least(bytes, fresh) * t->load->clean_milli / 1000;
	t->copying = true;
	memory_link_add(&w->link, MEMORY_OUT, &c->copy, c->copied);
}

static void copied_out(struct world *w, struct chunk *c)
{
	struct tenant *t = c->tenant;
	uint64_t begins = t->unmap_ns > w->now ? t->unmap_ns : w->now;

	t->copying = false;
	t->unmap_ns = begins + w->setup->unmap_ns;
	if (t->there) {
		t->order -= least(t->order, c->bytes);
		t->on_device -= c->bytes;
		t->in_store += c->bytes;
		t->ever_out = t->ever_out > t->in_store ? t->ever_out : t->in_store;
		memory_later(w, t, EVENT_LEFT, c->bytes, c->copied,
			     t->unmap_ns + w->setup->delay_ns);
		memory_guest_copy_out(w, t);
	}
	free(c);
}

/* Maps the bytes for which the guest got credit, chunk by chunk. */
void memory_guest_map_in(struct world *w, struct tenant *t, uint64_t bytes)
{
	uint64_t chunk = w->residency.tuning.chunk_bytes;

	while (bytes) {
		uint64_t size = least(bytes, chunk);
		uint64_t begins = t->map_ns > w->now ? t->map_ns : w->now;

		t->map_ns =
			begins + (memory_link_busy(&w->link, MEMORY_OUT) ? w->setup->map_beside_ns
									 : w->setup->map_ns);
		memory_later(w, t, EVENT_MAPPED, size, 0, t->map_ns);
		bytes -= size;
	}
}

void memory_guest_mapped(struct world *w, struct tenant *t, uint64_t bytes)
{
	struct chunk *c = t->there ? chunk_new(w, t, bytes) : NULL;

	if (c)
		memory_link_add(&w->link, MEMORY_IN, &c->copy, bytes);
}

static void copied_in(struct world *w, struct chunk *c)
{
	struct tenant *t = c->tenant;

	if (t->there) {
		t->in_store -= least(c->bytes, t->in_store);
		t->on_device += c->bytes;
		t->credit -= least(c->bytes, t->credit);
		residency_came(&t->member, c->bytes, w->now);
	}
	free(c);
}

void memory_guest_on_link(struct world *w)
{
	for (int way = 0; way < MEMORY_WAYS; way++) {
		struct memory_copy *copy = memory_link_done(&w->link, (enum memory_way)way);
		struct chunk *c = copy ? container_of(copy, struct chunk, copy) : NULL;

		if (c && way == MEMORY_OUT)
			copied_out(w, c);
		else if (c)
			copied_in(w, c);
	}
}
