/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a former meted has recorded (recorder.c) becomes tenants and guests again. Guests that have
 * not come back when the grace period is over are charged what can be measured.
 */
#include "node/state/restore.h"

#include <string.h>

#include "node/daemon.h"
#include "node/devices/cordon.h"
#include "node/devices/reserve.h"
#include "node/memory/book.h"
#include "node/memory/measure.h"
#include "node/memory/remains.h"
#include "node/process.h"
#include "node/state/absent.h"
#include "node/state/journal.h"
#include "node/state/leftover.h"
#include "node/state/past.h"
#include "node/state/record.h"
#include "node/state/recorder.h"
#include "node/tenants/guest.h"
#include "node/tenants/tenant.h"
#include "node/tenants/tenant_find.h"
#include "node/tenants/tenant_spec.h"
#include "node/upcalls.h"

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
		.observes = record_get_number(line, "observes") != 0,
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
		t->suspended = record_get_number(line, "away") != 0;
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

static void on_grace_over(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, restore.grace);

	d->restore.waiting = false;
	absent_settle(d);
	list_for_each(at, &d->tenants.all)
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
	int r = loop_timer_init(&d->loop, &d->restore.grace, on_grace_over);

	snprintf(path, sizeof(path), "%s/journal", d->place);
	if (r == 0)
		r = journal_open(&d->restore.journal, path, on_line, &past, why);
	if (r < 0) {
		past_done(&past);
		return r;
	}
	d->tenants.last_id = (uint32_t)past.last_tenant;
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
	list_for_each(link, &d->tenants.all) book_hold(list_entry(link, struct tenant, link));
	/* Armed once, after a start. If nothing can come back, the first connection disarms it. */
	if (!d->options.system || !list_empty(&d->tenants.all) || absent_any(d))
		loop_arm(&d->restore.grace, d->options.grace_ns);
	if (!list_empty(&d->tenants.all)) {
		d->restore.waiting = true;
		log_info("daemon.restored", "tenants=%u", d->tenants.count);
	}
	r = recorder_rewrite(d);
	if (r < 0)
		log_error("journal.lost", "path=%s reason=%s", path, log_text(strerror(-r)).text);
	d->restore.journal.broken = r < 0;
	/* What was left behind may have gone meanwhile. */
	measure_start(d);
	return 0;
}
