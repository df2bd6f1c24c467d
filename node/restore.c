/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records: a tenant with its share (the latest one counts), its end, a guest and its leaving; a
 * device that a picker has, and that it has it no more.
 *
 *	tenant id=3 owner=1000 device=GPU-...,GPU-... name=%xx.. memory=4GiB wait=10s
 *	end id=3
 *	held tenant=3 device=0 most=134217728
 *	guest tenant=3 pid=4711 started=123456
 *	left tenant=3 pid=4711 started=123456
 *	reserved device=GPU-... pid=4711 started=123456 until=0
 *	free device=GPU-...
 *
 * What a tenant holds changes too often to be written down: `held` is an upper bound, in large
 * steps, that only rises. Guests and pickers are told from others by their process's start, too.
 */
#include <string.h>

#include "node/daemon.h"
#include "node/process.h"
#include "node/record.h"

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
	record_value(line, "device", devices.text ? devices.text : "");
	record_value(line, "name", t->name);
	for (uint32_t i = 0; share_key(i); i++) {
		if (t->texts[i])
			record_value(line, share_key(i), t->texts[i]);
	}
	free(devices.text);
}

static void guest_line(struct record *line, const char *verb, uint32_t tenant, pid_t pid,
		       uint64_t started)
{
	record_text(line, verb);
	record_number(line, "tenant", tenant);
	record_number(line, "pid", (uint64_t)pid);
	record_number(line, "started", started);
}

static void held_line(struct record *line, const struct tenant *t, uint32_t device)
{
	record_text(line, "held");
	record_number(line, "tenant", t->id);
	record_number(line, "device", device);
	record_number(line, "most", t->device[device].most_bytes);
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
	record_number(line, "started", it->started);
	record_number(line, "until", it->until_ns);
}

/* Everything as it is now. */
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

			if (!g->joined)
				continue;
			guest_line(&all, "guest", t->id, g->pid, g->started);
			record_text(&all, "\n");
		}
		list_for_each(one, &t->expected)
		{
			struct expected *e = list_entry(one, struct expected, link);

			guest_line(&all, "guest", t->id, e->pid, e->started);
			record_text(&all, "\n");
		}
	}
	for (uint32_t i = 0; i < d->devices; i++) {
		if (!reserve_holds(&d->reserved[i]))
			continue;
		reserved_line(&all, d, i);
		record_text(&all, "\n");
	}
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
	/* What was lost before is in the whole; so is this line. */
	if (was_broken || journal_is_long(j))
		r = rewrite(d);
	else
		r = line->failed ? -ENOMEM : journal_append(j, line->text);
	j->broken = r < 0;
	if (r < 0 && !was_broken)
		log_error("journal.lost",
			  "path=%s reason=%s: a restart of meted would forget what "
			  "changed since",
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

void restore_held(struct tenant *t, uint32_t device, uint64_t held_bytes, uint64_t limit_bytes)
{
	uint64_t most = (held_bytes / held_step + 2) * held_step;
	struct record line = {0};

	/* Tenants whose limits fit the device never wait for each other after a restart. */
	if (most > limit_bytes)
		most = limit_bytes > held_bytes ? limit_bytes : held_bytes;
	t->device[device].most_bytes = most;
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

	guest_line(&line, "guest", g->tenant->id, g->pid, g->started);
	write_line(g->tenant->daemon, &line);
}

void restore_guest_gone(struct guest *g)
{
	struct record line = {0};

	if (g->tenant->daemon->stopping)
		return; /* it goes on, and comes back to our successor */
	guest_line(&line, "left", g->tenant->id, g->pid, g->started);
	write_line(g->tenant->daemon, &line);
}

void restore_reserved(struct daemon *d, uint32_t device)
{
	struct record line = {0};

	if (d->stopping)
		return; /* it is kept, and our successor knows */
	reserved_line(&line, d, device);
	write_line(d, &line);
}

/* What was read, before it is believed: the latest line of each tenant, guest and device. */
struct past {
	char **lines;
	size_t count, room;
	uint64_t last_tenant;
};

static void forget(struct past *past, size_t index)
{
	free(past->lines[index]);
	past->lines[index] = past->lines[--past->count];
}

static bool same_field(const char *a, const char *b, const char *key)
{
	return record_get_number(a, key) == record_get_number(b, key);
}

static bool same_device(const char *a, const char *b)
{
	char one[WIRE_TEXT_MAX + 1], other[WIRE_TEXT_MAX + 1];

	return record_get(a, "device", one, sizeof(one)) &&
	       record_get(b, "device", other, sizeof(other)) && strcmp(one, other) == 0;
}

static bool replaces(const char *line, const char *old)
{
	if (record_is(line, "reserved") || record_is(line, "free"))
		return record_is(old, "reserved") && same_device(old, line);
	if (record_is(line, "guest") || record_is(line, "left"))
		return record_is(old, "guest") && same_field(old, line, "tenant") &&
		       same_field(old, line, "pid") && same_field(old, line, "started");
	if (record_is(line, "held"))
		return record_is(old, "held") && same_field(old, line, "tenant") &&
		       same_field(old, line, "device");
	if (record_is(old, "tenant"))
		return same_field(old, line, "id");
	return record_is(line, "end") &&
	       record_get_number(old, "tenant") == record_get_number(line, "id");
}

/* A tenant's later line replaces its earlier one, its end takes its guests along. */
static void replace(struct past *past, const char *line)
{
	for (size_t i = past->count; i-- > 0;) {
		if (replaces(line, past->lines[i]))
			forget(past, i);
	}
}

static void on_line(void *context, const char *line)
{
	struct past *past = context;
	uint64_t id = record_get_number(line, "id");

	if ((record_is(line, "tenant") || record_is(line, "last")) && id > past->last_tenant)
		past->last_tenant = id;
	if (record_is(line, "last"))
		return;
	replace(past, line);
	if (!record_is(line, "tenant") && !record_is(line, "guest") && !record_is(line, "held") &&
	    !record_is(line, "reserved"))
		return;
	if (past->count == past->room) {
		size_t room = past->room ? 2 * past->room : 16;
		char **grown = realloc(past->lines, room * sizeof(*grown));

		if (!grown)
			return;
		past->lines = grown;
		past->room = room;
	}
	past->lines[past->count] = strdup(line);
	past->count += past->lines[past->count] != NULL;
}

static int read_devices(struct daemon *d, const char *line, struct tenant_spec *spec,
			struct fault *why)
{
	char names[2048], *at = names, *name;

	if (!record_get(line, "device", names, sizeof(names)))
		return fault_set(why, -EINVAL, "the record names no device");
	while ((name = strsep(&at, ",")) && spec->devices < WIRE_DEVICES) {
		if (daemon_find_device(d, name, &spec->device[spec->devices]) < 0)
			return fault_set(why, -ENODEV, "device %.60s is not there any more", name);
		spec->devices++;
	}
	return 0;
}

static void bring_tenant_back(struct daemon *d, const char *line)
{
	char texts[SHARE_FIELDS][WIRE_TEXT_MAX + 1], name[WIRE_TEXT_MAX + 1];
	struct tenant_spec spec = {.id = (uint32_t)record_get_number(line, "id"),
				   .owner = (uid_t)record_get_number(line, "owner"),
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
	if (r == 0)
		r = tenant_make(d, &spec, &t, &why);
	if (r < 0)
		log_error("tenant.lost", "tenant=%u reason=%s", spec.id, log_text(why.text).text);
}

static void on_expected_closed(struct loop_watch *watch)
{
	struct expected *e = container_of(watch, struct expected, death);

	close(e->pidfd);
	free(e);
}

static void drop_expected(struct expected *e)
{
	list_remove(&e->link);
	loop_unwatch(&e->death, on_expected_closed);
}

static void on_expected_death(struct loop_watch *watch, int events)
{
	struct expected *e = container_of(watch, struct expected, death);
	struct tenant *t = e->tenant;

	(void)events;
	if (!list_linked(&e->link))
		return;
	drop_expected(e);
	restore_release(t->daemon);
	tenant_maybe_end(t);
}

static void expect_guest(struct daemon *d, const char *line)
{
	struct tenant *t = tenant_find(d, (uint32_t)record_get_number(line, "tenant"));
	pid_t pid = (pid_t)record_get_number(line, "pid");
	uint64_t started = record_get_number(line, "started");
	struct expected *e;
	int pidfd;

	if (!t || process_open(pid, started, &pidfd) < 0)
		return;
	e = calloc(1, sizeof(*e));
	if (!e || loop_watch(&d->loop, &e->death, pidfd, LOOP_READ, on_expected_death) < 0) {
		free(e);
		close(pidfd);
		return;
	}
	e->tenant = t;
	e->pid = pid;
	e->started = started;
	e->pidfd = pidfd;
	list_append(&t->expected, &e->link);
}

static void bring_held_back(struct daemon *d, const char *line)
{
	struct tenant *t = tenant_find(d, (uint32_t)record_get_number(line, "tenant"));
	uint64_t device = record_get_number(line, "device");

	if (t && device < t->devices)
		t->device[device].most_bytes = record_get_number(line, "most");
}

static void bring_reservation_back(struct daemon *d, const char *line)
{
	struct reservation was = {.pid = (pid_t)record_get_number(line, "pid"),
				  .started = record_get_number(line, "started"),
				  .until_ns = record_get_number(line, "until")};
	char name[WIRE_TEXT_MAX + 1];
	uint32_t device;

	if (record_get(line, "device", name, sizeof(name)) &&
	    daemon_find_device(d, name, &device) == 0)
		reserve_return(d, device, &was);
}

/* What a tenant's processes held must not be promised to others before they have said so. */
static void hold(struct tenant *t)
{
	for (uint32_t i = 0; i < t->devices; i++)
		ledger_expect(t->daemon->ledger, t->device[i].account, !list_empty(&t->expected),
			      t->device[i].most_bytes);
}

void restore_release(struct daemon *d)
{
	list_for_each(link, &d->tenants)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		if (list_empty(&t->expected))
			hold(t);
	}
	book_pump(d);
}

bool restore_expects(struct tenant *t, pid_t pid)
{
	list_for_each(link, &t->expected)
	{
		if (list_entry(link, struct expected, link)->pid == pid)
			return true;
	}
	return false;
}

void restore_forget(struct tenant *t)
{
	list_for_each(link, &t->expected) drop_expected(list_entry(link, struct expected, link));
}

void restore_returned(struct tenant *t, pid_t pid)
{
	list_for_each(link, &t->expected)
	{
		struct expected *e = list_entry(link, struct expected, link);

		if (e->pid != pid)
			continue;
		drop_expected(e);
		restore_release(t->daemon);
		return;
	}
}

static void on_grace_over(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, grace);

	d->restoring = false;
	list_for_each(at, &d->tenants)
	{
		struct tenant *t = list_entry(at, struct tenant, link);

		list_for_each(link, &t->expected)
		{
			struct expected *e = list_entry(link, struct expected, link);

			log_warning("guest.missing", "tenant=%u pid=%d", t->id, (int)e->pid);
			drop_expected(e);
		}
		tenant_maybe_end(t);
	}
	restore_release(d);
	daemon_maybe_end(d);
}

int restore_open(struct daemon *d, struct fault *why)
{
	struct past past = {0};
	char path[PLACE_MAX + 16];
	int r = loop_timer_init(&d->loop, &d->grace, on_grace_over);

	snprintf(path, sizeof(path), "%s/journal", d->place);
	if (r == 0)
		r = journal_open(&d->journal, path, on_line, &past, why);
	if (r < 0)
		return r;
	d->last_tenant = (uint32_t)past.last_tenant;
	for (size_t i = 0; i < past.count; i++) {
		if (record_is(past.lines[i], "tenant"))
			bring_tenant_back(d, past.lines[i]);
	}
	for (size_t i = 0; i < past.count; i++) {
		if (record_is(past.lines[i], "guest"))
			expect_guest(d, past.lines[i]);
		if (record_is(past.lines[i], "held"))
			bring_held_back(d, past.lines[i]);
		if (record_is(past.lines[i], "reserved"))
			bring_reservation_back(d, past.lines[i]);
		free(past.lines[i]);
	}
	free(past.lines);
	list_for_each(link, &d->tenants) hold(list_entry(link, struct tenant, link));
	/* Once, after a start; the first connection ends it where there is nothing to come back. */
	if (!d->options.system || !list_empty(&d->tenants))
		loop_arm(&d->grace, d->options.grace_ns);
	if (!list_empty(&d->tenants)) {
		d->restoring = true;
		log_info("daemon.restored", "tenants=%u", d->tenant_count);
	}
	r = rewrite(d);
	if (r < 0)
		log_error("journal.lost", "path=%s reason=%s", path, log_text(strerror(-r)).text);
	d->journal.broken = r < 0;
	return 0;
}
