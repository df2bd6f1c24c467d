/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that no tenant holds: it belongs to processes that the driver lists on a device and that
 * are not guests there. It is not available. An ask that would be refused because of it is answered
 * from a measurement that is newer than the ask. While anybody waits for memory, the measurement is
 * repeated, because nothing notifies us when such a process ends.
 *
 * A process counts until the driver no longer lists it, because a process that ends returns its
 * memory last. A row is ignored only if it was measured before its process ended. A process that is
 * not visible from here is not counted: in a process namespace of our own it may be a guest with
 * another pid.
 */
#include "node/memory/outside.h"

#include <string.h>

#include "base/least.h"
#include "base/text.h"
#include "node/daemon.h"
#include "node/memory/measure.h"
#include "node/process.h"

enum {
	FRESH_MS = 1000,
	AGAIN_MS = 200, /* while an ask waits */
};

static const uint64_t ms = 1000000;

/* Marks the rows of the device's guests. Rows are sorted by pid. */
static void mark_guests(struct daemon *d, uint32_t device)
{
	list_for_each(at, &d->device[device].tenants)
	{
		const struct tenant *t = list_entry(at, struct tenant_device, link)->tenant;

		list_for_each(link, (struct list *)&t->guests)
			measure_mark(d, device, list_entry(link, struct guest, link)->pid);
	}
}

/* How many of the processes are known by name. */
static uint32_t named(const struct device *device)
{
	return (uint32_t)least(device->outside_count, OUTSIDE_SHOWN);
}

/* Takes over what was known of the process, if it is still the same one. */
static void describe(const struct device *device, struct outside_process *it)
{
	for (uint32_t i = 0; i < named(device); i++) {
		const struct outside_process *was = &device->outside[i];

		if (was->pid != it->pid || was->started != it->started)
			continue;
		it->user = was->user;
		memcpy(it->program, was->program, sizeof(it->program));
		return;
	}
	it->user = (uint32_t)process_user((pid_t)it->pid);
	process_name((pid_t)it->pid, it->program, sizeof(it->program));
	text_make_plain(it->program);
}

/* Keeps the largest processes, sorted by size, the largest first. */
static void keep_largest(struct outside_process *list, uint32_t *count,
			 const struct outside_process *it)
{
	uint32_t at = *count;

	if (at == OUTSIDE_SHOWN && list[--at].used >= it->used)
		return;
	if (*count < OUTSIDE_SHOWN)
		(*count)++;
	for (; at && list[at - 1].used < it->used; at--)
		list[at] = list[at - 1];
	list[at] = *it;
}

static bool arm(struct daemon *d)
{
	bool waited = false;

	for (uint32_t i = 0; i < d->devices; i++) {
		struct ledger_sums all;

		ledger_device_sums(d->book.ledger, i, &all);
		waited |= all.waiting && all.outside;
	}
	if (waited && !loop_is_armed(&d->outside.timer))
		loop_arm(&d->outside.timer, AGAIN_MS * ms);
	return waited;
}

void outside_seen(struct daemon *d, uint32_t index)
{
	struct outside_process list[OUTSIDE_SHOWN];
	struct device *device = &d->device[index];
	uint32_t count = 0, all = 0;
	uint64_t sum = 0;

	mark_guests(d, index);
	for (uint32_t row = 0; row < d->measure.row_count[index];) {
		struct outside_process it = {.pid = measure_row(d, index, row)->pid};
		bool guest = false;

		for (;
		     row < d->measure.row_count[index] && measure_row(d, index, row)->pid == it.pid;
		     row++) {
			it.used += measure_row(d, index, row)->used_bytes;
			guest |= measure_row(d, index, row)->guest;
		}
		if (guest || !it.used || process_is_over((pid_t)it.pid))
			continue;
		it.started = process_started(d->looks, (pid_t)it.pid);
		describe(device, &it);
		keep_largest(list, &count, &it);
		sum += it.used;
		all++;
	}
	memcpy(device->outside, list, count * sizeof(list[0]));
	device->outside_count = all;
	device->outside_ns = loop_now_ns();
	ledger_outside(d->book.ledger, index, sum);
	arm(d);
}

void outside_looked(struct daemon *d)
{
	for (uint32_t i = 0; i < d->devices; i++)
		if (d->measure.ended >= d->device[i].outside_until)
			ledger_outside_unsure(d->book.ledger, i, 0);
}

void outside_late(struct daemon *d)
{
	for (uint32_t i = 0; i < d->devices; i++)
		ledger_outside_unsure(d->book.ledger, i, 0);
}

void outside_want(struct daemon *d)
{
	d->outside.wanted = d->devices != 0;
}

static bool is_fresh(const struct daemon *d, uint32_t index)
{
	uint64_t seen = d->device[index].outside_ns;

	return seen && loop_now_ns() - seen < FRESH_MS * ms;
}

uint64_t outside_fresh(struct daemon *d)
{
	uint64_t next = d->measure.begun + 1;
	bool fresh = true;

	for (uint32_t i = 0; i < d->devices; i++)
		fresh &= d->device[i].info->gone || is_fresh(d, i);
	if (fresh)
		return 0;
	outside_want(d);
	measure_start(d);
	return next;
}

void outside_asker(struct guest_device *at, uint64_t bytes)
{
	const struct guest *g = at->guest;
	struct daemon *d = g->tenant->daemon;
	uint32_t index = g->tenant->device[at - g->device].index;
	bool lacks = !ledger_fits(d->book.ledger, at->holder, bytes) && outside_bytes(d, index);

	if (d->measure.late || (!lacks && is_fresh(d, index)))
		return;
	if (lacks) {
		d->device[index].outside_until = d->measure.begun + 1;
		ledger_outside_unsure(d->book.ledger, index, 1);
	}
	outside_want(d);
	measure_start(d);
}

uint64_t outside_bytes(const struct daemon *d, uint32_t device)
{
	struct ledger_sums all;

	ledger_device_sums(d->book.ledger, device, &all);
	return all.outside;
}

bool outside_row(const struct daemon *d, uint32_t device, uint32_t place,
		 struct wire_outside_row *ret_row)
{
	const struct outside_process *it = &d->device[device].outside[place];

	if (place >= named(&d->device[device]))
		return false;
	*ret_row = (struct wire_outside_row){
		.device = device, .pid = it->pid, .user = it->user, .used = it->used};
	wire_set_text(&ret_row->program, it->program);
	return true;
}

struct outside_text outside_text(const struct daemon *d, uint32_t device)
{
	const struct device *at = &d->device[device];
	const struct outside_process *first = at->outside;
	struct outside_text ret = {""};
	char others[32] = "";

	if (!at->outside_count)
		return ret;
	if (at->outside_count > 1)
		snprintf(others, sizeof(others), ", and %u other%s", at->outside_count - 1,
			 at->outside_count > 2 ? "s" : "");
	snprintf(ret.text, sizeof(ret.text), " by tenants, %s outside mete (%s%spid %u%s)",
		 text_size(outside_bytes(d, device), TEXT_UP).text, first->program,
		 *first->program ? ", " : "", first->pid, others);
	return ret;
}

static void on_due(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, outside.timer);

	if (!arm(d))
		return;
	outside_want(d);
	measure_start(d);
}

int outside_open(struct daemon *d)
{
	return loop_timer_init(&d->loop, &d->outside.timer, on_due);
}

void outside_close(struct daemon *d)
{
	loop_timer_close(&d->outside.timer, NULL);
}
