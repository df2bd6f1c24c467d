/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/time_engine.h"

void time_engine_init(struct time_engine *e, uint64_t slice_ns)
{
	*e = (struct time_engine){.slice_ns = slice_ns};
	list_init(&e->ring);
}

void time_engine_advance(struct time_engine *e, uint64_t now_ns)
{
	struct time_process *p = time_engine_running(e);

	if (p) {
		p->served += now_ns - e->now_ns;
		e->served += now_ns - e->now_ns;
	}
	e->now_ns = now_ns;
}

void time_engine_put(struct time_engine *e, struct time_process *p)
{
	const struct time_process *running = time_engine_running(e);
	bool runs = running && running == p;

	if (p->served < p->limit && !list_linked(&p->ring)) {
		list_append(&e->ring, &p->ring);
		if (time_engine_running(e) == p)
			e->slice_end_ns = e->now_ns + e->slice_ns;
	} else if (p->served >= p->limit && list_linked(&p->ring)) {
		list_remove(&p->ring);
		if (runs)
			e->slice_end_ns = e->now_ns + e->slice_ns;
	}
}

void time_engine_turn(struct time_engine *e)
{
	struct time_process *p = time_engine_running(e);

	if (!p || e->now_ns < e->slice_end_ns)
		return;
	list_remove(&p->ring);
	list_append(&e->ring, &p->ring);
	e->slice_end_ns = e->now_ns + e->slice_ns;
}

uint64_t time_engine_next(const struct time_engine *e)
{
	const struct time_process *p = time_engine_running(e);
	uint64_t next = UINT64_MAX, until;

	if (!p)
		return UINT64_MAX;
	until = p->mark < p->limit ? p->mark : p->limit;
	if (until != UINT64_MAX)
		next = e->now_ns + (until > p->served ? until - p->served : 0);
	if (e->ring.next->next != &e->ring && e->slice_end_ns < next)
		next = e->slice_end_ns > e->now_ns ? e->slice_end_ns : e->now_ns;
	return next;
}
