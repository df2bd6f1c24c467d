/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal's records: a tenant with its share (the latest one counts) and its end; a guest and
 * its leaving; a device that a picker holds and its release.
 *
 *	tenant id=3 owner=1000 outer=2 away=1 device=GPU-...,GPU-... name=%xx.. memory=4GiB wait=10s
 *	end id=3
 *	held tenant=3 device=0 most=134217728 highest=1073741824
 *	guest tenant=3 pid=4711 started=123456 image=987 copy=140001234567
 *	left tenant=3 pid=4711 started=123456
 *	reserved device=GPU-... pid=4711 owner=1000 started=123456 until=0
 *	free device=GPU-...
 *	cordoned device=GPU-...
 *	uncordoned device=GPU-...
 *
 * A tenant's line has observes=1 if it does. What a tenant holds changes too often to be recorded:
 *`held` is an upper bound that only rises, in large steps. A guest or picker is identified by its
 * pid and its process's start.
 */
#include "node/state/recorder.h"

#include <string.h>

#include "node/daemon.h"
#include "node/state/absent.h"
#include "node/state/journal.h"
#include "node/state/record.h"

static const uint64_t held_step = 32 << 20;

static void tenant_line(struct record *line, const struct tenant *t)
{
	struct record devices = {0};

	for (uint32_t i = 0; i < t->devices; i++) {
		record_text(&devices, i ? "," : "");
		record_text(&devices, t->daemon->device[t->device[i].index].info->uuid_text);
	}
	record_text(line, "tenant");
	record_number(line, "id", t->id);
	record_number(line, "owner", t->owner);
	if (t->outer)
		record_number(line, "outer", t->outer->id);
	if (t->suspended)
		record_number(line, "away", 1);
	if (t->observes)
		record_number(line, "observes", 1);
	record_value(line, "device", devices.text ? devices.text : "");
	record_value(line, "name", t->name);
	for (uint32_t i = 0; share_key(i); i++) {
		if (t->texts[i])
			record_value(line, share_key(i), t->texts[i]);
	}
	free(devices.text);
}

static void guest_line(struct record *line, const char *verb, const struct guest *g)
{
	record_text(line, verb);
	record_number(line, "tenant", g->tenant->id);
	record_number(line, "pid", (uint64_t)g->pid);
	record_number(line, "started", g->process.started);
}

static void joined_line(struct record *line, const struct guest *g)
{
	guest_line(line, "guest", g);
	record_number(line, "image", g->process.image);
	record_number(line, "copy", g->copy);
}

static void held_line(struct record *line, const struct tenant *t, uint32_t device)
{
	record_text(line, "held");
	record_number(line, "tenant", t->id);
	record_number(line, "device", device);
	record_number(line, "most", t->device[device].most_bytes);
	record_number(line, "highest", t->device[device].highest_limit);
	if (t->device[device].remains.bytes)
		record_number(line, "behind", t->device[device].remains.bytes);
}

static void reserved_line(struct record *line, const struct daemon *d, uint32_t device)
{
	const struct reservation *it = &d->reserve.device[device];
	bool holds = reserve_holds(it);

	record_text(line, holds ? "reserved" : "free");
	record_value(line, "device", d->device[device].info->uuid_text);
	if (!holds)
		return;
	record_number(line, "pid", (uint64_t)it->pid);
	record_number(line, "owner", it->uid);
	record_number(line, "started", it->started);
	record_number(line, "until", it->until_ns);
}

static void cordon_line(struct record *line, const struct daemon *d, uint32_t device)
{
	record_text(line, d->device[device].cordoned ? "cordoned" : "uncordoned");
	record_value(line, "device", d->device[device].info->uuid_text);
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

		tenant_line(&all, t);
		record_text(&all, "\n");
		for (uint32_t i = 0; i < t->devices; i++) {
			held_line(&all, t, i);
			record_text(&all, "\n");
		}
		list_for_each(one, &t->guests)
		{
			struct guest *g = list_entry(one, struct guest, link);

			joined_line(&all, g);
			record_text(&all, "\n");
		}
	}
	for (uint32_t i = 0; i < d->devices; i++) {
		if (!reserve_holds(&d->reserve.device[i]))
			continue;
		reserved_line(&all, d, i);
		record_text(&all, "\n");
	}
	for (uint32_t i = 0; i < d->devices; i++) {
		if (!d->device[i].cordoned)
			continue;
		cordon_line(&all, d, i);
		record_text(&all, "\n");
	}
	absent_write(d, &all);
	r = all.failed ? -ENOMEM : journal_rewrite(&d->restore.journal, all.text);
	free(all.text);
	return r;
}

static void write_line(struct daemon *d, struct record *line)
{
	struct journal *j = &d->restore.journal;
	bool was_broken = j->broken;
	int r;

	if (j->fd < 0) {
		free(line->text);
		return;
	}
	/* A rewrite includes what was lost before, and this line. */
	if (was_broken || journal_is_long(j))
		r = recorder_rewrite(d);
	else
		r = line->failed ? -ENOMEM : journal_append(j, line->text);
	j->broken = r < 0;
	if (r < 0 && !was_broken)
		log_error("journal.lost",
			  "path=%s reason=%s: a restart of meted would lose what has changed since",
			  j->path, log_text(strerror(-r)).text);
	if (r == 0 && was_broken)
		log_info("journal.back", "path=%s", j->path);
	free(line->text);
}

void recorder_tenant(struct tenant *t)
{
	struct record line = {0};

	tenant_line(&line, t);
	write_line(t->daemon, &line);
}

void recorder_held(struct tenant *t, uint32_t device, uint64_t held_bytes,
		   const struct ledger_sums *sums)
{
	uint64_t most = (held_bytes / held_step + 2) * held_step, limit_bytes = sums->limit;
	struct record line = {0};

	/* Tenants whose limits fit the device never wait for each other after a restart. */
	if (most > limit_bytes)
		most = limit_bytes > held_bytes ? limit_bytes : held_bytes;
	if (held_bytes > t->device[device].most_bytes)
		t->device[device].most_bytes = most;
	t->device[device].highest_limit = sums->highest_limit;
	held_line(&line, t, device);
	write_line(t->daemon, &line);
}

void recorder_behind(struct tenant *t, uint32_t device)
{
	struct record line = {0};

	if (t->daemon->stopping)
		return; /* our successor charges it */
	held_line(&line, t, device);
	write_line(t->daemon, &line);
}

void recorder_tenant_gone(struct daemon *d, uint32_t id)
{
	struct record line = {0};

	record_text(&line, "end");
	record_number(&line, "id", id);
	write_line(d, &line);
}

void recorder_guest(struct guest *g)
{
	struct record line = {0};

	joined_line(&line, g);
	write_line(g->tenant->daemon, &line);
}

void recorder_guest_gone(struct guest *g)
{
	struct record line = {0};

	if (g->tenant->daemon->stopping)
		return; /* the guest runs on and connects to our successor */
	guest_line(&line, "left", g);
	write_line(g->tenant->daemon, &line);
}

void recorder_cordon(struct daemon *d, uint32_t device)
{
	struct record line = {0};

	cordon_line(&line, d, device);
	write_line(d, &line);
}

void recorder_reserved(struct daemon *d, uint32_t device)
{
	struct record line = {0};

	if (d->stopping)
		return; /* it stays reserved, and our successor must know */
	reserved_line(&line, d, device);
	write_line(d, &line);
}
