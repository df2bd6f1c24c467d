/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal's records: a tenant with its share (the latest one counts) and its end; a guest and
 * its leaving; a device that a picker holds and its release.
 *
 *	tenant id=3 owner=1000 outer=2 away=1 device=GPU-...,GPU-... name=%xx.. memory=4GiB wait=10s
 *	end id=3
 *	held tenant=3 device=0 most=134217728 highest=1073741824
 *	told tenant=3 device=0 kind=1 since=8140123456789 last=8140987654321
 *	owed tenant=3 device=0 at=8140987654321 weight=0 cap=90000000000 unpaid=0 floor=0 ran=1
 *	guest tenant=3 pid=4711 started=123456 image=987 copy=140001234567
 *	context tenant=3 pid=4711 started=123456 image=987 device=0 bytes=67108864
 *	left tenant=3 pid=4711 started=123456
 *	reserved device=GPU-... pid=4711 owner=1000 started=123456 until=0
 *	free device=GPU-...
 *	cordoned device=GPU-...
 *	uncordoned device=GPU-...
 *
 * A tenant's record has observes=1 if the tenant observes, and pods=1 if the Kubernetes part made
 * it. Its held bytes change too often to be
 * recorded: `held` is an upper bound that only rises, in large steps. Nor is each change of what it
 * owes for its time. A guest or picker is
 * identified by its pid and its process's start.
 */
#include "node/state/recorder.h"

#include <string.h>

#include "base/journal.h"
#include "base/record.h"
#include "node/daemon.h"
#include "node/state/absent.h"
#include "node/tenants/share_text.h"
#include "node/upcalls.h"

static const uint64_t held_step = 32 << 20;

static void tenant_record(struct record *record, const struct tenant *t)
{
	struct record devices = {0};

	for (uint32_t i = 0; i < t->devices; i++) {
		record_text(&devices, i ? "," : "");
		record_text(&devices, t->daemon->device[t->device[i].index].info->uuid_text);
	}
	record_text(record, "tenant");
	record_number(record, "id", t->id);
	record_number(record, "owner", t->owner);
	if (t->outer)
		record_number(record, "outer", t->outer->id);
	if (t->suspended)
		record_number(record, "away", 1);
	if (t->observes)
		record_number(record, "observes", 1);
	if (t->pods)
		record_number(record, "pods", 1);
	record_value(record, "device", devices.text ? devices.text : "");
	record_value(record, "name", t->name);
	for (const struct share_text *at = t->texts; at; at = at->next)
		record_value(record, share_key(at->field), at->text);
	free(devices.text);
}

static void guest_record(struct record *record, const char *verb, const struct guest *g)
{
	record_text(record, verb);
	record_number(record, "tenant", g->tenant->id);
	record_number(record, "pid", (uint64_t)g->pid);
	record_number(record, "started", g->process.started);
}

static void joined_record(struct record *record, const struct guest *g)
{
	guest_record(record, "guest", g);
	record_number(record, "image", g->process.image);
	record_number(record, "copy", g->copy);
}

/* Of that program: another one in the process has other contexts. */
static void context_record(struct record *record, const struct guest_device *at)
{
	const struct guest *g = at->guest;

	guest_record(record, "context", g);
	record_number(record, "image", g->process.image);
	record_number(record, "device", (uint64_t)(at - g->device));
	record_number(record, "bytes", at->context_bytes);
}

static void held_record(struct record *record, const struct tenant *t, uint32_t device)
{
	record_text(record, "held");
	record_number(record, "tenant", t->id);
	record_number(record, "device", device);
	record_number(record, "most", t->device[device].most_bytes);
	record_number(record, "highest", t->device[device].highest_limit);
	if (t->device[device].remains && t->device[device].remains->bytes)
		record_number(record, "behind", t->device[device].remains->bytes);
}

/* Of a wait, or of a former one: a pod is told of the next one only after a while. */
static bool is_wait_recorded(const struct tenant_device *at)
{
	return at->wait.told || at->wait.last_ns;
}

/* Of waits.c: what the Kubernetes part was told of. */
static void told_record(struct record *record, const struct tenant_device *at)
{
	record_text(record, "told");
	record_number(record, "tenant", at->tenant->id);
	record_number(record, "device", tenant_index(at));
	record_number(record, "kind", at->wait.told ? at->wait.kind : 0);
	record_number(record, "since", at->wait.since_ns);
	record_number(record, "last", at->wait.last_ns);
}

static void owed_record(struct record *record, const struct tenant_device *at)
{
	const struct turns_kept *owed = at->time_owed;

	record_text(record, "owed");
	record_number(record, "tenant", at->tenant->id);
	record_number(record, "device", tenant_index(at));
	record_number(record, "at", owed->at_ns);
	record_number(record, "weight", owed->owed_ns);
	record_number(record, "cap", owed->cap_owed);
	record_number(record, "unpaid", owed->unpaid);
	record_number(record, "floor", owed->floor_owed);
	record_number(record, "ran", owed->ran);
	if (owed->left) {
		record_number(record, "left", owed->left);
		record_number(record, "computes", owed->computes);
	}
	if (owed->owing_ns) {
		record_number(record, "owing", owed->owing_ns);
		record_number(record, "watched", owed->watched_until_ns);
	}
}

static void reserved_record(struct record *record, const struct daemon *d, uint32_t device)
{
	const struct reservation *it = &d->reserve.device[device];
	bool holds = reserve_holds(it);

	record_text(record, holds ? "reserved" : "free");
	record_value(record, "device", d->device[device].info->uuid_text);
	if (!holds)
		return;
	record_number(record, "pid", (uint64_t)it->pid);
	record_number(record, "owner", it->uid);
	record_number(record, "started", it->started);
	record_number(record, "until", it->until_ns);
}

static void cordon_record(struct record *record, const struct daemon *d, uint32_t device)
{
	record_text(record, d->device[device].cordoned ? "cordoned" : "uncordoned");
	record_value(record, "device", d->device[device].info->uuid_text);
}

static void contexts_records(struct record *all, const struct guest *g)
{
	for (uint32_t i = 0; i < g->tenant->devices; i++) {
		if (!g->device[i].context_bytes)
			continue;
		context_record(all, &g->device[i]);
		record_text(all, "\n");
	}
}

static void device_records(struct record *all, const struct tenant_device *at)
{
	if (at->time_owed && at->time_owed->at_ns) {
		owed_record(all, at);
		record_text(all, "\n");
	}
	if (is_wait_recorded(at)) {
		told_record(all, at);
		record_text(all, "\n");
	}
}

int recorder_rewrite(struct daemon *d)
{
	struct record all = {0};
	int r;

	record_text(&all, "last");
	record_number(&all, "id", d->tenants.last_id);
	record_text(&all, "\n");
	list_for_each(link, &d->tenants.all)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		tenant_record(&all, t);
		record_text(&all, "\n");
		for (uint32_t i = 0; i < t->devices; i++) {
			held_record(&all, t, i);
			record_text(&all, "\n");
			device_records(&all, &t->device[i]);
		}
		list_for_each(one, &t->guests)
		{
			struct guest *g = list_entry(one, struct guest, link);

			joined_record(&all, g);
			record_text(&all, "\n");
			contexts_records(&all, g);
		}
	}
	for (uint32_t i = 0; i < d->devices; i++) {
		if (!reserve_holds(&d->reserve.device[i]))
			continue;
		reserved_record(&all, d, i);
		record_text(&all, "\n");
	}
	for (uint32_t i = 0; i < d->devices; i++) {
		if (!d->device[i].cordoned)
			continue;
		cordon_record(&all, d, i);
		record_text(&all, "\n");
	}
	absent_write(d, &all);
	r = all.failed ? -ENOMEM : journal_rewrite(&d->restore.journal, all.text);
	free(all.text);
	return r;
}

static void write_record(struct daemon *d, struct record *record)
{
	struct journal *j = &d->restore.journal;
	bool was_broken = j->broken;
	int r;

	if (j->fd < 0) {
		free(record->text);
		return;
	}
	/* A rewrite includes what was lost before, and this record. */
	if (was_broken || journal_is_long(j))
		r = recorder_rewrite(d);
	else
		r = record->failed ? -ENOMEM : journal_append(j, record->text);
	j->broken = r < 0;
	if (r < 0 && !was_broken)
		log_error("journal.lost",
			  "path=%s reason=%s: a restart of meted would lose what has changed since",
			  j->path, log_text(strerror(-r)).text);
	if (r == 0 && was_broken)
		log_info("journal.back", "path=%s", j->path);
	free(record->text);
}

void recorder_tenant(struct tenant *t)
{
	struct record record = {0};

	tenant_record(&record, t);
	write_record(t->daemon, &record);
}

void recorder_held(struct tenant *t, uint32_t device, uint64_t held_bytes,
		   const struct ledger_sums *sums)
{
	uint64_t most = (held_bytes / held_step + 2) * held_step, limit_bytes = sums->limit;
	struct record record = {0};

	/* Tenants whose limits fit the device never wait for each other after a restart. */
	if (most > limit_bytes)
		most = limit_bytes > held_bytes ? limit_bytes : held_bytes;
	if (held_bytes > t->device[device].most_bytes)
		t->device[device].most_bytes = most;
	t->device[device].highest_limit = sums->highest_limit;
	held_record(&record, t, device);
	write_record(t->daemon, &record);
}

void recorder_told(const struct tenant_device *at)
{
	struct record record = {0};

	told_record(&record, at);
	write_record(at->tenant->daemon, &record);
}

void recorder_owed(const struct tenant_device *at)
{
	struct record record = {0};

	owed_record(&record, at);
	write_record(at->tenant->daemon, &record);
}

void recorder_behind(struct tenant *t, uint32_t device)
{
	struct record record = {0};

	if (t->daemon->stopping)
		return; /* our successor charges it */
	held_record(&record, t, device);
	write_record(t->daemon, &record);
}

void recorder_tenant_gone(struct daemon *d, uint32_t id)
{
	struct record record = {0};

	record_text(&record, "end");
	record_number(&record, "id", id);
	write_record(d, &record);
}

void recorder_guest(struct guest *g)
{
	struct record record = {0};

	joined_record(&record, g);
	write_record(g->tenant->daemon, &record);
}

void recorder_context(const struct guest_device *at)
{
	struct record record = {0};

	context_record(&record, at);
	write_record(at->guest->tenant->daemon, &record);
}

void recorder_guest_gone(struct guest *g)
{
	struct record record = {0};

	if (g->tenant->daemon->stopping)
		return; /* the guest runs on and connects to our successor */
	guest_record(&record, "left", g);
	write_record(g->tenant->daemon, &record);
}

void recorder_cordon(struct daemon *d, uint32_t device)
{
	struct record record = {0};

	cordon_record(&record, d, device);
	write_record(d, &record);
}

void recorder_reserved(struct daemon *d, uint32_t device)
{
	struct record record = {0};

	if (d->stopping)
		return; /* it stays reserved, and our successor must know */
	reserved_record(&record, d, device);
	write_record(d, &record);
}
