/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal's records: a tenant with its share (the latest one counts) and its end; a guest and
 * its leaving; a device that a picker holds and its release; one that takes no new tenants, or does
 * again.
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
 * What a tenant holds changes too often to be recorded: `held` is an upper bound that only
 * rises, in large steps. A guest or picker is identified by its pid and its process's start.
 */
#include <string.h>

#include "node/cordon.h"
#include "node/state/absent.h"
#include "node/guest.h"
#include "node/memory/measure.h"
#include "node/state/past.h"
#include "node/state/record.h"
#include "node/memory/remains.h"

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
	if (t->away)
		record_number(line, "away", 1);
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
	const struct reservation *it = &d->reserved[device];
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

/* Rewrites the journal with the current state. */
static int rewrite(struct daemon *d)
{
	struct record all = {0};
	int r;

	record_text(&all, "last");
	record_number(&all, "id", d->last_tenant);
	record_text(&all, "\n");
	list_for_each(link, &d->tenants)
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
		if (!reserve_holds(&d->reserved[i]))
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
	r = all.failed ? -ENOMEM : journal_rewrite(&d->journal, all.text);
	free(all.text);
	return r;
}

static void write_line(struct daemon *d, struct record *line)
{
	struct journal *j = &d->journal;
	bool was_broken = j->broken;
	int r;

	if (j->fd < 0) {
		free(line->text);
		return;
	}
	/* A rewrite includes what was lost before, and this line. */
	if (was_broken || journal_is_long(j))
		r = rewrite(d);
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

void restore_tenant(struct tenant *t)
{
	struct record line = {0};

	tenant_line(&line, t);
	write_line(t->daemon, &line);
}

void restore_held(struct tenant *t, uint32_t device, uint64_t held_bytes,
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

void restore_behind(struct tenant *t, uint32_t device)
{
	struct record line = {0};

	if (t->daemon->stopping)
		return; /* our successor charges it */
	held_line(&line, t, device);
	write_line(t->daemon, &line);
}

void restore_tenant_gone(struct daemon *d, uint32_t id)
{
	struct record line = {0};

	record_text(&line, "end");
	record_number(&line, "id", id);
	write_line(d, &line);
}

void restore_guest(struct guest *g)
{
	struct record line = {0};

	joined_line(&line, g);
	write_line(g->tenant->daemon, &line);
}

void restore_guest_gone(struct guest *g)
{
	struct record line = {0};

	if (g->tenant->daemon->stopping)
		return; /* the guest runs on and connects to our successor */
	guest_line(&line, "left", g);
	write_line(g->tenant->daemon, &line);
}

void restore_reserved(struct daemon *d, uint32_t device)
{
	struct record line = {0};

	if (d->stopping)
		return; /* it stays reserved, and our successor must know */
	reserved_line(&line, d, device);
	write_line(d, &line);
}

void restore_cordon(struct daemon *d, uint32_t device)
{
	struct record line = {0};

	cordon_line(&line, d, device);
	write_line(d, &line);
}

static void on_line(void *context, const char *line)
{
	past_add(context, line);
}

static int read_devices(struct daemon *d, const char *line, struct tenant_spec *spec,
			struct fault *why)
{
	char names[2048], *at = names, *name;

	if (!record_get(line, "device", names, sizeof(names)))
		return fault_set(why, -EINVAL, "the record names no device");
	while ((name = strsep(&at, ",")) && spec->devices < WIRE_DEVICES) {
		if (daemon_find_device(d, name, &spec->device[spec->devices]) < 0)
			return fault_set(why, -ENODEV, "device %.60s is not there", name);
		spec->devices++;
	}
	return 0;
}

static void keep_absent(struct daemon *d, uint32_t id, const char *line, const char *reason)
{
	int r = absent_take(d, id, line);

	if (r < 0)
		log_error("tenant.lost", "tenant=%u reason=%s", id, log_text(strerror(-r)).text);
	else
		log_warning("tenant.absent", "tenant=%u reason=%s", id, log_text(reason).text);
}

static void bring_tenant_back(struct daemon *d, const char *line)
{
	char texts[SHARE_FIELDS][WIRE_TEXT_MAX + 1], name[WIRE_TEXT_MAX + 1];
	struct tenant_spec spec = {
		.id = (uint32_t)record_get_number(line, "id"),
		.owner = (uid_t)record_get_number(line, "owner"),
		.outer = tenant_find(d, (uint32_t)record_get_number(line, "outer")),
		.name = name};
	struct tenant *t;
	struct fault why;
	int r;

	if (!spec.id || !record_get(line, "name", name, sizeof(name)))
		return;
	for (uint32_t i = 0; share_key(i); i++) {
		if (record_get(line, share_key(i), texts[i], sizeof(texts[i])))
			spec.texts[i] = texts[i];
	}
	r = read_devices(d, line, &spec, &why);
	/* A tenant within an absent one is absent, too. */
	if (r == -ENODEV || absent_has(d, (uint32_t)record_get_number(line, "outer"))) {
		keep_absent(d, spec.id, line, r < 0 ? why.text : "its outer tenant is absent");
		return;
	}
	if (r == 0)
		r = tenant_make(d, &spec, &t, &why);
	if (r == 0)
		t->away = record_get_number(line, "away") != 0;
	if (r < 0)
		log_error("tenant.lost", "tenant=%u reason=%s", spec.id, log_text(why.text).text);
}

static void bring_guest_back(struct daemon *d, const char *line)
{
	struct tenant *t = tenant_find(d, (uint32_t)record_get_number(line, "tenant"));

	struct process_identity process = {.pid = (pid_t)record_get_number(line, "pid"),
					   .started = record_get_number(line, "started"),
					   .image = record_get_number(line, "image")};

	if (t)
		guest_expect(t, &process, record_get_number(line, "copy"));
}

static void bring_held_back(struct daemon *d, const char *line)
{
	struct tenant *t = tenant_find(d, (uint32_t)record_get_number(line, "tenant"));
	uint64_t device = record_get_number(line, "device");

	if (!t || device >= t->devices)
		return;
	t->device[device].most_bytes = record_get_number(line, "most");
	t->device[device].highest_limit = record_get_number(line, "highest");
	ledger_had_limit(t->device[device].account, t->device[device].highest_limit);
	remains_left(&t->device[device].remains, record_get_number(line, "behind"));
}

static void bring_reservation_back(struct daemon *d, const char *line)
{
	struct reservation was = {.pid = (pid_t)record_get_number(line, "pid"),
				  .uid = (uid_t)record_get_number(line, "owner"),
				  .started = record_get_number(line, "started"),
				  .until_ns = record_get_number(line, "until")};
	char name[WIRE_TEXT_MAX + 1];
	uint32_t device;

	if (!record_get(line, "device", name, sizeof(name)))
		return;
	if (daemon_find_device(d, name, &device) == 0)
		reserve_return(d, device, &was);
	else if (process_started(was.pid) == was.started)
		absent_add(d, 0, line);
}

/* A device that is missing is cordoned when it is back. */
static void bring_cordon_back(struct daemon *d, const char *line)
{
	char name[WIRE_TEXT_MAX + 1];
	uint32_t device;

	if (!record_get(line, "device", name, sizeof(name)))
		return;
	if (daemon_find_device(d, name, &device) == 0)
		cordon_return(d, device);
	else
		absent_add(d, 0, line);
}

/* What a tenant's processes held is not promised to others before they have stated it. */
static void hold(struct tenant *t)
{
	for (uint32_t i = 0; i < t->devices; i++)
		ledger_expect(t->daemon->ledger, t->device[i].account, t->expected_count != 0,
			      t->device[i].most_bytes);
}

void restore_release(struct tenant *t)
{
	if (!t->expected_count)
		hold(t);
}

static void on_grace_over(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, grace);

	d->restoring = false;
	absent_settle(d);
	list_for_each(at, &d->tenants)
	{
		struct tenant *t = list_entry(at, struct tenant, link);

		list_for_each(link, &t->guests)
		{
			struct guest *g = list_entry(link, struct guest, link);

			if (g->expected)
				guest_miss(g);
		}
		tenant_maybe_end(t);
	}
	measure_start(d);
	book_pump(d);
	daemon_maybe_end(d);
}

static void bring_back(struct daemon *d, const char *line)
{
	uint32_t tenant = (uint32_t)record_get_number(line, "tenant");

	if (absent_has(d, tenant)) {
		absent_add(d, tenant, line);
		return;
	}
	if (record_is(line, "guest"))
		bring_guest_back(d, line);
	if (record_is(line, "held"))
		bring_held_back(d, line);
	if (record_is(line, "reserved"))
		bring_reservation_back(d, line);
	if (record_is(line, "cordoned"))
		bring_cordon_back(d, line);
}

int restore_open(struct daemon *d, struct fault *why)
{
	struct past past = {0};
	char path[PLACE_MAX + 16];
	int r = loop_timer_init(&d->loop, &d->grace, on_grace_over);

	snprintf(path, sizeof(path), "%s/journal", d->place);
	if (r == 0)
		r = journal_open(&d->journal, path, on_line, &past, why);
	if (r < 0) {
		past_done(&past);
		return r;
	}
	d->last_tenant = (uint32_t)past.last_tenant;
	past_settle(&past);
	for (size_t i = 0; i < past.count; i++) {
		if (past.records[i].line && record_is(past.records[i].line, "tenant"))
			bring_tenant_back(d, past.records[i].line);
	}
	for (size_t i = 0; i < past.count; i++) {
		if (past.records[i].line)
			bring_back(d, past.records[i].line);
	}
	past_done(&past);
	leftover_remove(d);
	list_for_each(link, &d->tenants) hold(list_entry(link, struct tenant, link));
	/* Armed once, after a start. If nothing can come back, the first connection disarms it. */
	if (!d->options.system || !list_empty(&d->tenants) || absent_any(d))
		loop_arm(&d->grace, d->options.grace_ns);
	if (!list_empty(&d->tenants)) {
		d->restoring = true;
		log_info("daemon.restored", "tenants=%u", d->tenant_count);
	}
	r = rewrite(d);
	if (r < 0)
		log_error("journal.lost", "path=%s reason=%s", path, log_text(strerror(-r)).text);
	d->journal.broken = r < 0;
	/* What was left behind may have gone meanwhile. */
	measure_start(d);
	return 0;
}
