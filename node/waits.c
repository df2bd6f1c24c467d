/* SPDX-License-Identifier: Apache-2.0 */
#include "node/waits.h"

#include <inttypes.h>

#include "base/least.h"
#include "core/doing.h"
#include "node/events.h"
#include "node/peers/rows.h"
#include "node/state/recorder.h"
#include "node/upcalls.h"

/* So many looks (--look-every; 30 s): what takes turns with others waits for seconds, in order, and
 * a person who looks into a pod after half a minute is to find the reason. */
enum { LOOKS_LONG = 6 };

/* A guest says what it waits for after what it holds: when all are back, one look more. */
enum { LOOKS_UNHEARD = 2 };

static const uint64_t second_ns = 1000000000;

static enum host_wait kind_of(const struct wire_tenant_row *row)
{
	uint32_t doing = row->doing;

	if (doing == DOING_ROOM || doing == DOING_MEMORY || doing == DOING_YIELDS)
		return HOST_WAITS_MEMORY;
	if (doing == DOING_HANGS || doing == DOING_STOPPED)
		return HOST_HANGS;
	return row->stuck ? HOST_STUCK : HOST_WAITS_NOT;
}

/* Its close has not ended, and it may hang one day. */
static bool may_hang(const struct wire_tenant_row *row)
{
	return row->gate == WIRE_GATE_CLOSING;
}

static const struct tenant *outermost(const struct tenant *t)
{
	while (t->outer)
		t = t->outer;
	return t;
}

static bool is_of_pod(const struct tenant_device *at)
{
	return at->tenant->daemon->waits.told && outermost(at->tenant)->pods;
}

static bool say(struct tenant_device *at, const struct wire_tenant_row *row, uint64_t over_ns)
{
	const struct waits *waits = &at->tenant->daemon->waits;
	const struct host_waiting news = {.tenant = outermost(at->tenant)->id,
					  .row = row,
					  .kind = (enum host_wait)at->wait.kind,
					  .over_ns = over_ns,
					  .refused = row->refusals - at->wait.refusals,
					  .before_ns = at->wait.before ? at->wait.since_ns : 0,
					  .last_ns = at->wait.last_ns};

	return waits->told(waits->owner, &news);
}

static bool is_work(uint32_t doing)
{
	return doing == DOING_KERNEL || doing == DOING_HANGS || doing == DOING_STOPPED;
}

/* A new meted first takes it for one that obeys, and finds anew that it does not. */
static bool has_moved(const struct wire_tenant_row *row)
{
	return row->moved_out || row->moved_in || !row->movable;
}

/* What was told, and not another one of its kind, which began after that. Who is stuck has turns
 * meanwhile, and asks for memory; who is halted because its work hangs has that work still. */
static bool goes_on(const struct long_wait *wait, const struct wire_tenant_row *row, uint64_t since)
{
	if (wait->kind == HOST_STUCK)
		return row->stuck || (wait->before && !has_moved(row));
	/* After a restart of meted nobody knows how long it has gone on. */
	if (wait->kind == HOST_HANGS && (wait->before || row->doing == DOING_HALTED))
		return may_hang(row);
	/* A tenant that asks and computes is shown with the work that outlasts its turn. */
	if (wait->kind == HOST_WAITS_MEMORY && is_work(row->doing))
		return row->waiting;
	return kind_of(row) == (enum host_wait)wait->kind &&
	       (!row->lasting || since <= wait->judged_ns);
}

/* As soon as it is stuck hang_stuck() tells that. */
static void tell_beginning(const struct tenant_device *at, const struct wire_tenant_row *row,
			   uint64_t s)
{
	if (at->wait.kind == HOST_WAITS_MEMORY)
		events_at(at, HAPPENED_WAITS, "it has waited for memory for %" PRIu64 " s", s);
	else if (at->wait.kind == HOST_HANGS)
		events_at(at, HAPPENED_HANGS,
			  "its work on the device has not ended for %" PRIu64 " s%s", s,
			  row->doing == DOING_STOPPED ? ": its process is stopped" : "");
}

static void begin(struct tenant_device *at, const struct wire_tenant_row *row, uint64_t since)
{
	uint64_t now = loop_now_ns();

	/* Who is stuck does something that has lasted for other reasons. */
	at->wait = (struct long_wait){.link = at->wait.link,
				      .kind = kind_of(row),
				      .since_ns = kind_of(row) == HOST_STUCK ? now : since,
				      .judged_ns = now,
				      .refusals = row->refusals,
				      .last_ns = at->wait.last_ns};
	tell_beginning(at, row, (now - since) / second_ns);
}

/* Not every wait ends with memory (decision 172). */
static const char *end_of_wait(const struct wire_tenant_row *row, uint64_t refused)
{
	if (refused)
		return "was refused some of it";
	if (row->doing == DOING_SUSPENDED || row->doing == DOING_HALTED)
		return "is suspended now";
	return row->doing == DOING_ABSENT ? "its processes have ended" : "goes on";
}

static void tell_end(struct tenant_device *at, const struct wire_tenant_row *row, uint64_t took)
{
	uint64_t s = took / second_ns;

	if (at->wait.kind == HOST_WAITS_MEMORY)
		events_at(at, HAPPENED_WAITED, "it waited for memory for %" PRIu64 " s, and %s", s,
			  end_of_wait(row, row->refusals - at->wait.refusals));
	else
		events_at(at, HAPPENED_RECOVERED, "it %s for %" PRIu64 " s",
			  at->wait.kind == HOST_HANGS ? "hung" : "was stuck", s);
}

/* A guest whose connection has ended asks for nothing. It may be about to end, or to come back:
 * a process that ends closes its sockets before its pidfd says so. */
static bool is_one_away(const struct tenant *t)
{
	list_for_each(link, (struct list *)&t->guests)
	{
		const struct guest *g = list_entry(link, struct guest, link);

		if (!g->caller)
			return true;
	}
	return false;
}

/* False: it is not known how it has ended, or the Kubernetes part has to be told, and could not be;
 * later. */
static bool end(struct tenant_device *at, const struct wire_tenant_row *row)
{
	uint64_t took = most(loop_now_ns() - at->wait.since_ns, 1);
	bool told = at->wait.told;

	if (is_one_away(at->tenant) || (told && is_of_pod(at) && !say(at, row, took)))
		return false;
	tell_end(at, row, took);
	at->wait.kind = HOST_WAITS_NOT;
	at->wait.told = false;
	at->wait.before = false;
	if (told)
		recorder_told(at);
	return true;
}

static void tell_kubernetes(struct tenant_device *at, const struct wire_tenant_row *row)
{
	if (!at->wait.kind || at->wait.told || !is_of_pod(at))
		return;
	at->wait.told = say(at, row, 0);
	if (!at->wait.told)
		return;
	at->wait.last_ns = loop_now_ns();
	recorder_told(at);
}

static void judge(struct tenant_device *at, uint64_t now)
{
	uint64_t longest = LOOKS_LONG * at->tenant->daemon->options.look_ns, since;
	struct long_wait *wait = &at->wait;
	struct wire_tenant_row row;
	enum host_wait kind;

	wait->changed = false;
	rows_tenant(at->tenant, tenant_index(at), &row);
	kind = kind_of(&row);
	since = now - least(now, row.lasting);
	if (wait->kind && !goes_on(wait, &row, since) && !end(at, &row))
		return;
	if (!wait->kind && kind && (kind == HOST_STUCK || row.lasting >= longest))
		begin(at, &row, since);
	tell_kubernetes(at, &row);
	if (!kind && !wait->kind && !may_hang(&row))
		list_remove(&wait->link);
}

/* What a meted before told of: until its guests are back nobody knows whether it goes on. */
static bool is_heard(struct tenant_device *at, uint64_t now, bool all)
{
	struct long_wait *wait = &at->wait;

	if (!wait->unheard)
		return true;
	if (!all || at->tenant->expected_count || --wait->unheard)
		return false;
	wait->judged_ns = now;
	return true;
}

static void on_due(struct loop_timer *timer)
{
	struct waits *waits = container_of(timer, struct waits, timer);
	struct daemon *d = container_of(waits, struct daemon, waits);
	uint64_t now = loop_now_ns();
	bool all = now >= waits->next_ns;

	list_for_each(link, &waits->all)
	{
		struct long_wait *wait = list_entry(link, struct long_wait, link);
		struct tenant_device *at = container_of(wait, struct tenant_device, wait);

		if ((all || wait->changed) && is_heard(at, now, all))
			judge(at, now);
	}
	if (list_empty(&waits->all))
		return;
	if (all)
		waits->next_ns = now + d->options.look_ns;
	loop_arm(timer, waits->next_ns - now);
}

static void add(struct waits *waits, struct tenant_device *at)
{
	uint64_t look_ns = at->tenant->daemon->options.look_ns;

	if (list_empty(&waits->all)) {
		waits->next_ns = loop_now_ns() + look_ns;
		loop_arm(&waits->timer, look_ns);
	}
	list_append(&waits->all, &at->wait.link);
}

void waits_look(struct tenant_device *at)
{
	struct daemon *d = at->tenant->daemon;
	struct waits *waits = &d->waits;

	if (d->stopping)
		return;
	if (!list_linked(&at->wait.link)) {
		add(waits, at);
	} else if (at->wait.kind && !at->wait.changed) {
		/* It may be over. */
		at->wait.changed = true;
		loop_arm(&waits->timer, 1);
	}
}

void waits_were_told(struct tenant_device *at, const struct waits_past *past)
{
	uint64_t now = loop_now_ns();

	at->wait.last_ns = least(past->last_ns, now);
	if (past->kind <= HOST_WAITS_NOT || past->kind > HOST_STUCK)
		return;
	at->wait.kind = past->kind;
	at->wait.since_ns = least(past->since_ns, now);
	at->wait.told = true;
	at->wait.before = true;
	at->wait.unheard = LOOKS_UNHEARD;
}

int waits_open(struct daemon *d)
{
	list_init(&d->waits.all);
	return loop_timer_init(&d->loop, &d->waits.timer, on_due);
}

/* Those of which a meted before has told. */
static void add_former(struct daemon *d)
{
	list_for_each(link, &d->tenants.all)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		for (uint32_t i = 0; i < t->devices; i++)
			if (t->device[i].wait.kind && !list_linked(&t->device[i].wait.link))
				add(&d->waits, &t->device[i]);
	}
}

void waits_tell(struct daemon *d, host_waits *told, void *owner)
{
	d->waits.told = told;
	d->waits.owner = owner;
	if (told)
		add_former(d);
}

void waits_close(struct daemon *d)
{
	loop_timer_close(&d->waits.timer, NULL);
}
