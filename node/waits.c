/* SPDX-License-Identifier: Apache-2.0 */
#include "node/waits.h"

#include <inttypes.h>

#include "base/least.h"
#include "core/doing.h"
#include "node/events.h"
#include "node/peers/rows.h"
#include "node/upcalls.h"

/* So many looks (--look-every; 30 s): what takes turns with others waits for seconds, in order, and
 * a person who looks into a pod after half a minute is to find the reason. */
enum { LOOKS_LONG = 6 };

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

/* True: whoever has to know was told. */
static bool say(struct tenant_device *at, const struct wire_tenant_row *row, uint64_t over_ns)
{
	const struct waits *waits = &at->tenant->daemon->waits;
	const struct host_waiting news = {.tenant = outermost(at->tenant)->id,
					  .row = row,
					  .kind = (enum host_wait)at->wait.kind,
					  .over_ns = over_ns,
					  .refused = row->refusals - at->wait.refusals};

	return !waits->told || !outermost(at->tenant)->pods || waits->told(waits->owner, &news);
}

/* What was told, and not another one of its kind, which began after that. Who is stuck has turns
 * meanwhile, and asks for memory; who is halted because its work hangs has that work still. */
static bool goes_on(const struct long_wait *wait, const struct wire_tenant_row *row, uint64_t since)
{
	if (wait->kind == HOST_STUCK)
		return row->stuck;
	if (wait->kind == HOST_HANGS && row->doing == DOING_HALTED)
		return may_hang(row);
	return kind_of(row) == (enum host_wait)wait->kind &&
	       (!row->lasting || since <= wait->judged_ns);
}

static void begin(struct tenant_device *at, const struct wire_tenant_row *row, uint64_t since)
{
	uint64_t now = loop_now_ns();

	/* Who is stuck does something that has lasted for other reasons. */
	at->wait = (struct long_wait){.link = at->wait.link,
				      .kind = kind_of(row),
				      .since_ns = kind_of(row) == HOST_STUCK ? now : since,
				      .judged_ns = now,
				      .refusals = row->refusals};
	if (at->wait.kind == HOST_WAITS_MEMORY)
		events_at(at, HAPPENED_WAITS, "it has waited for memory for %" PRIu64 " s",
			  (now - since) / second_ns);
}

static void end(struct tenant_device *at, const struct wire_tenant_row *row)
{
	uint64_t took = most(loop_now_ns() - at->wait.since_ns, 1);
	uint64_t s = took / second_ns, refused = row->refusals - at->wait.refusals;

	if (at->wait.kind == HOST_WAITS_MEMORY)
		events_at(at, HAPPENED_GOES_ON,
			  refused ? "it waited for memory for %" PRIu64
				    " s, and was refused some of it"
				  : "it waited for memory for %" PRIu64 " s, and goes on",
			  s);
	else
		events_at(at, HAPPENED_RECOVERED, "it %s for %" PRIu64 " s",
			  at->wait.kind == HOST_HANGS ? "hung" : "was stuck", s);
	if (at->wait.told)
		(void)say(at, row, took);
	at->wait.kind = HOST_WAITS_NOT;
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
	if (wait->kind && !goes_on(wait, &row, since))
		end(at, &row);
	if (!wait->kind && kind && (kind == HOST_STUCK || row.lasting >= longest))
		begin(at, &row, since);
	if (wait->kind && !wait->told)
		wait->told = say(at, &row, 0);
	if (!kind && !may_hang(&row))
		list_remove(&wait->link);
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

		if (all || wait->changed)
			judge(container_of(wait, struct tenant_device, wait), now);
	}
	if (list_empty(&waits->all))
		return;
	if (all)
		waits->next_ns = now + d->options.look_ns;
	loop_arm(timer, waits->next_ns - now);
}

void waits_look(struct tenant_device *at)
{
	struct daemon *d = at->tenant->daemon;
	struct waits *waits = &d->waits;

	if (d->stopping)
		return;
	if (!list_linked(&at->wait.link)) {
		if (list_empty(&waits->all)) {
			waits->next_ns = loop_now_ns() + d->options.look_ns;
			loop_arm(&waits->timer, d->options.look_ns);
		}
		list_append(&waits->all, &at->wait.link);
	} else if (at->wait.kind && !at->wait.changed) {
		/* It may be over. */
		at->wait.changed = true;
		loop_arm(&waits->timer, 1);
	}
}

int waits_open(struct daemon *d)
{
	list_init(&d->waits.all);
	return loop_timer_init(&d->loop, &d->waits.timer, on_due);
}

void waits_tell(struct daemon *d, host_waits *told, void *owner)
{
	d->waits.told = told;
	d->waits.owner = owner;
}

void waits_close(struct daemon *d)
{
	loop_timer_close(&d->waits.timer, NULL);
}
