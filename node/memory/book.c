/* SPDX-License-Identifier: Apache-2.0 */
#include "node/memory/book.h"

#include "node/daemon.h"
#include "node/tenants/tenant_show.h"
#include "node/upcalls.h"

enum {
	SHOWN_AT_ONCE = 8, /* of a device: they see its room with the event; if there are more, all
			      see it later */
	SHOWN_LATER_MS = 10,
	SHOWN_EACH_US = 100, /* or as many of these as there are tenants, if that is later */
	GLANCE_MS = 10,
};

static const uint64_t us = 1000, ms = 1000000;

static void on_ledger_timer(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, book.timer);

	book_pump(d);
}

/* All tenants of a device see its room. If there are many, they see it later, all together: the
 * more there are the later, so that the cost in a second does not depend on their number. */
static void show_room(struct daemon *d, uint32_t index)
{
	struct device *device = &d->device[index];
	uint64_t credit = book_credit(d, index);

	device->unshown = false;
	list_for_each(link, &device->tenants)
		tenant_show_room(list_entry(link, struct tenant_device, link), credit);
}

static uint64_t show_delay(const struct daemon *d)
{
	uint64_t all = d->tenants.count * SHOWN_EACH_US * us;

	return all > SHOWN_LATER_MS * ms ? all : SHOWN_LATER_MS * ms;
}

static void on_show_timer(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, book.show_timer);

	for (uint32_t i = 0; i < d->devices; i++) {
		if (d->device[i].unshown)
			show_room(d, i);
	}
}

uint64_t book_room(const struct daemon *d, uint32_t device)
{
	return ledger_room_on(d->book.ledger, device);
}

uint64_t book_credit(const struct daemon *d, uint32_t device)
{
	return ledger_credit_on(d->book.ledger, device);
}

/* Tenants see their changed figures at once. */
static void show(struct daemon *d)
{
	struct tenant_device *at;

	while ((at = ledger_changed(d->book.ledger)) != NULL)
		tenant_show(at->tenant, tenant_index(at));
	for (uint32_t i = 0; i < d->devices; i++) {
		struct device *device = &d->device[i];
		uint64_t room = book_room(d, i);

		if (room == device->shown_room && device->registered == device->shown_registered)
			continue;
		device->shown_room = room;
		device->shown_registered = device->registered;
		device->unshown = true;
		if (device->registered <= SHOWN_AT_ONCE)
			show_room(d, i);
		else if (!loop_is_armed(&d->book.show_timer))
			loop_arm(&d->book.show_timer, show_delay(d));
	}
}

void book_device(struct daemon *d, uint32_t index)
{
	ledger_set_count(d->book.ledger, index + 1);
	ledger_set_device(d->book.ledger, index, d->device[index].info->total_bytes,
			  d->device[index].reserve_bytes);
}

int book_open(struct daemon *d)
{
	/* Unused entries cost no memory: have as many as there can be. */
	uint32_t each = d->places < WIRE_DEVICES ? d->places : WIRE_DEVICES;
	struct ledger_limits limits = {.devices = d->places,
				       .accounts = DAEMON_TENANTS * each +
						   (DAEMON_USERS + 1) * d->places,
				       .holders = (DAEMON_SEATS + DAEMON_TENANTS) * each,
				       .asks = DAEMON_ASKS,
				       .asks_sure = DAEMON_ASKS_SURE,
				       .asks_per_account = DAEMON_ASKS_OF_TENANT,
				       .asks_per_holder = DAEMON_ASKS_OF_GUEST,
				       .recall_ns = 1000 * ms,
				       .refresh_ns = 20 * ms,
				       .guess_ns = 5000 * ms};
	void *memory = calloc(1, ledger_size(&limits));
	int r;

	if (!memory)
		return -ENOMEM;
	d->book.ledger = ledger_init(memory, &limits);
	for (uint32_t i = 0; i < d->places; i++) {
		list_init(&d->device[i].tenants);
		list_init(&d->device[i].remains);
	}
	ledger_set_count(d->book.ledger, 0);
	for (uint32_t i = 0; i < d->devices; i++)
		book_device(d, i);
	r = loop_timer_init(&d->loop, &d->book.timer, on_ledger_timer);
	if (r == 0)
		r = loop_timer_init(&d->loop, &d->book.show_timer, on_show_timer);
	return r;
}

void book_close(struct daemon *d)
{
	loop_timer_close(&d->book.timer, NULL);
	loop_timer_close(&d->book.show_timer, NULL);
	free(d->book.ledger);
	d->book.ledger = NULL;
}

static uint64_t says_allocated(const struct guest_device *at)
{
	uint32_t i = (uint32_t)(at - at->guest->device);

	const struct wire_own_page *own = at->guest->own;
	uint64_t here = __atomic_load_n(&own->device[i].allocated_bytes, __ATOMIC_ACQUIRE);
	uint64_t out = __atomic_load_n(&own->movable[i].out_bytes, __ATOMIC_ACQUIRE);

	/* Memory in the store is allocated, too. */
	return out > UINT64_MAX - here ? UINT64_MAX : here + out;
}

static void refresh(struct guest_device *at)
{
	struct guest *g = at->guest;
	struct ledger *l = g->tenant->daemon->book.ledger;
	uint64_t peak =
		__atomic_load_n(&g->own->device[at - g->device].peak_bytes, __ATOMIC_RELAXED);

	/* This much was allocated for a moment, between two refreshes. */
	if (peak > at->seen_peak) {
		at->seen_peak = peak;
		ledger_report_peak(l, at->holder, peak);
	}
	ledger_report(l, at->holder, says_allocated(at));
}

void book_refresh_guest(struct guest *g)
{
	for (uint32_t i = 0; g->stated && i < g->tenant->devices; i++)
		refresh(&g->device[i]);
}

static void refresh_tenant(struct tenant_device *of)
{
	list_for_each(link, &of->tenant->guests)
	{
		struct guest *g = list_entry(link, struct guest, link);

		if (g->stated)
			refresh(&g->device[of - of->tenant->device]);
	}
}

static void refresh_device(struct device *device)
{
	list_for_each(link, &device->tenants)
		refresh_tenant(list_entry(link, struct tenant_device, link));
}

void book_glance(struct daemon *d, uint32_t device)
{
	uint64_t now = loop_now_ns();

	if (now - d->device[device].glanced_ns < GLANCE_MS * ms)
		return;
	d->device[device].glanced_ns = now;
	refresh_device(&d->device[device]);
}

void book_refresh_all(struct daemon *d)
{
	for (uint32_t i = 0; i < d->devices; i++)
		refresh_device(&d->device[i]);
}

static void refresh_for(struct daemon *d, const struct ledger_action *action)
{
	if (action->account)
		refresh_tenant(ledger_watcher(action->account));
	else
		refresh_device(&d->device[action->device]);
}

void book_pump(struct daemon *d)
{
	struct ledger_action action;
	uint64_t now, deadline, later;

	lost_look(d);
	now = loop_now_ns();
	while (ledger_next(d->book.ledger, now, &action)) {
		if (action.verb == LEDGER_REFRESH) {
			refresh_for(d, &action);
			continue;
		}
		/* The guest must find the figures that match the answer. */
		show(d);
		words_answer(((struct guest_device *)ledger_owner(action.holder))->guest, &action);
	}
	show(d);
	move_book_changed(d);
	/* Relative to the ledger's time: what became due since then is due at once. */
	deadline = ledger_deadline(d->book.ledger, now);
	later = loop_now_ns();
	d->book.due_ns = deadline;
	if (deadline)
		loop_arm(&d->book.timer, deadline > later ? deadline - later : 0);
	else
		loop_disarm(&d->book.timer);
}

void book_hold(struct tenant *t)
{
	for (uint32_t i = 0; i < t->devices; i++)
		ledger_expect(t->daemon->book.ledger, t->device[i].account, t->expected_count != 0,
			      t->device[i].most_bytes);
}

void book_release(struct tenant *t)
{
	if (!t->expected_count)
		book_hold(t);
}
