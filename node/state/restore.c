/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes tenants and guests of a former meted's records (recorder.c). Guests that have not come back
 * when the grace period is over are charged what can be measured.
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
#include "base/journal.h"
#include "node/state/leftover.h"
#include "node/state/past.h"
#include "base/record.h"
#include "node/state/recorder.h"
#include "node/tenants/guest.h"
#include "node/tenants/guest_identity.h"
#include "node/tenants/tenant.h"
#include "node/tenants/tenant_find.h"
#include "node/tenants/tenant_spec.h"
#include "node/upcalls.h"

static void on_record(void *context, const char *record)
{
	past_add(context, record);
}

static int read_devices(struct daemon *d, const char *record, struct tenant_spec *spec,
			struct fault *why)
{
	char names[2048], *at = names, *name;

	if (!record_get(record, "device", names, sizeof(names)))
		return fault_set(why, -EINVAL, "the record names no device");
	while ((name = strsep(&at, ",")) && spec->devices < WIRE_DEVICES) {
		if (daemon_find_device(d, name, &spec->device[spec->devices]) < 0)
			return fault_set(why, -ENODEV, "device %.60s is not there", name);
		spec->devices++;
	}
	return 0;
}

static void keep_absent(struct daemon *d, uint32_t id, const char *record, const char *reason)
{
	int r = absent_take(d, id, record);

	if (r < 0)
		log_error("tenant.lost", "tenant=%u reason=%s", id, log_text(strerror(-r)).text);
	else
		log_warning("tenant.absent", "tenant=%u reason=%s", id, log_text(reason).text);
}

static void bring_tenant_back(struct daemon *d, const char *record)
{
	char texts[SHARE_FIELDS][WIRE_TEXT_MAX + 1], name[WIRE_TEXT_MAX + 1];
	struct tenant_spec spec = {
		.id = (uint32_t)record_get_number(record, "id"),
		.owner = (uid_t)record_get_number(record, "owner"),
		.outer = tenant_find(d, (uint32_t)record_get_number(record, "outer")),
		.observes = record_get_number(record, "observes") != 0,
		.pods = record_get_number(record, "pods") != 0,
		.name = name};
	struct tenant *t;
	struct fault why;
	int r;

	if (!spec.id || !record_get(record, "name", name, sizeof(name)))
		return;
	for (uint32_t i = 0; share_key(i); i++) {
		if (record_get(record, share_key(i), texts[i], sizeof(texts[i])))
			spec.texts[i] = texts[i];
	}
	r = read_devices(d, record, &spec, &why);
	/* A tenant within an absent one is absent, too. */
	if (r == -ENODEV || absent_has(d, (uint32_t)record_get_number(record, "outer"))) {
		keep_absent(d, spec.id, record, r < 0 ? why.text : "its outer tenant is absent");
		return;
	}
	if (r == 0)
		r = tenant_make(d, &spec, &t, &why);
	if (r == 0)
		t->suspended = record_get_number(record, "away") != 0;
	if (r < 0)
		log_error("tenant.lost", "tenant=%u reason=%s", spec.id, log_text(why.text).text);
}

static void bring_guest_back(struct daemon *d, const char *record)
{
	struct tenant *t = tenant_find(d, (uint32_t)record_get_number(record, "tenant"));

	struct process_identity process = {.pid = (pid_t)record_get_number(record, "pid"),
					   .started = record_get_number(record, "started"),
					   .image = record_get_number(record, "image")};

	if (t)
		guest_expect(t, &process, record_get_number(record, "copy"));
}

/* Of a process that is there, and still that program. */
static void bring_context_back(struct daemon *d, const char *record)
{
	struct tenant *t = tenant_find(d, (uint32_t)record_get_number(record, "tenant"));
	struct process_identity process = {.pid = (pid_t)record_get_number(record, "pid"),
					   .started = record_get_number(record, "started"),
					   .image = record_get_number(record, "image")};
	struct guest *g = t ? guest_find(t, &process) : NULL;
	uint64_t device = record_get_number(record, "device");

	if (g && device < t->devices && process.image && g->process.image == process.image)
		g->device[device].context_bytes = record_get_number(record, "bytes");
}

/* Its tenant and its index of the device. NULL: it is not there. */
static struct tenant_device *device_of(struct daemon *d, const char *record)
{
	struct tenant *t = tenant_find(d, (uint32_t)record_get_number(record, "tenant"));
	uint64_t device = record_get_number(record, "device");

	return t && device < t->devices ? &t->device[device] : NULL;
}

static void bring_held_back(struct daemon *d, const char *record)
{
	struct tenant_device *at = device_of(d, record);

	if (!at)
		return;
	at->most_bytes = record_get_number(record, "most");
	at->highest_limit = record_get_number(record, "highest");
	ledger_had_limit(at->account, at->highest_limit);
	remains_left(at, record_get_number(record, "behind"));
}

static void bring_told_back(struct daemon *d, const char *record)
{
	struct tenant_device *at = device_of(d, record);

	const struct waits_past past = {.kind = (uint32_t)record_get_number(record, "kind"),
					.since_ns = record_get_number(record, "since"),
					.last_ns = record_get_number(record, "last")};

	if (at)
		waits_were_told(at, &past);
}

static void bring_owed_back(struct daemon *d, const char *record)
{
	struct tenant_device *at = device_of(d, record);

	if (at && !at->time_owed)
		at->time_owed = malloc(sizeof(*at->time_owed));
	if (!at || !at->time_owed)
		return;
	*at->time_owed = (struct turns_kept){
		.at_ns = record_get_number(record, "at"),
		.owed_ns = record_get_number(record, "weight"),
		.cap_owed = record_get_number(record, "cap"),
		.unpaid = record_get_number(record, "unpaid"),
		.floor_owed = record_get_number(record, "floor"),
		.owing_ns = record_get_number(record, "owing"),
		.watched_until_ns = record_get_number(record, "watched"),
		.left = (uint32_t)record_get_number(record, "left"),
		.computes = record_get_number(record, "computes") != 0,
		.ran = record_get_number(record, "ran") != 0,
	};
	owed_return(at);
}

static void bring_reservation_back(struct daemon *d, const char *record)
{
	struct reservation was = {.pid = (pid_t)record_get_number(record, "pid"),
				  .uid = (uid_t)record_get_number(record, "owner"),
				  .started = record_get_number(record, "started"),
				  .until_ns = record_get_number(record, "until")};
	char name[WIRE_TEXT_MAX + 1];
	uint32_t device;

	if (!record_get(record, "device", name, sizeof(name)))
		return;
	if (daemon_find_device(d, name, &device) == 0)
		reserve_return(d, device, &was);
	else if (!process_is_gone(d->looks, was.pid, was.started))
		absent_add(d, 0, record);
}

/* A device that is missing is cordoned when it is back. */
static void bring_cordon_back(struct daemon *d, const char *record)
{
	char name[WIRE_TEXT_MAX + 1];
	uint32_t device;

	if (!record_get(record, "device", name, sizeof(name)))
		return;
	if (daemon_find_device(d, name, &device) == 0)
		cordon_return(d, device);
	else
		absent_add(d, 0, record);
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

static void bring_back(struct daemon *d, const char *record)
{
	uint32_t tenant = (uint32_t)record_get_number(record, "tenant");

	if (absent_has(d, tenant)) {
		absent_add(d, tenant, record);
		return;
	}
	if (record_is(record, "guest"))
		bring_guest_back(d, record);
	if (record_is(record, "context"))
		bring_context_back(d, record);
	if (record_is(record, "held"))
		bring_held_back(d, record);
	if (record_is(record, "told"))
		bring_told_back(d, record);
	if (record_is(record, "reserved"))
		bring_reservation_back(d, record);
	if (record_is(record, "cordoned"))
		bring_cordon_back(d, record);
}

static void settle_debts(struct daemon *d)
{
	list_for_each(link, &d->tenants.all)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		for (uint32_t i = 0; i < t->devices; i++)
			owed_return_all(&t->device[i]);
	}
}

/* What was owed is known before a guest joins. */
static void bring_all_back(struct daemon *d, const struct past *past)
{
	for (size_t i = 0; i < past->count; i++) {
		if (past->records[i].text && record_is(past->records[i].text, "tenant"))
			bring_tenant_back(d, past->records[i].text);
	}
	for (size_t i = 0; i < past->count; i++) {
		if (past->records[i].text && record_is(past->records[i].text, "owed"))
			bring_owed_back(d, past->records[i].text);
	}
	for (size_t i = 0; i < past->count; i++) {
		if (past->records[i].text)
			bring_back(d, past->records[i].text);
	}
	settle_debts(d);
}

int restore_open(struct daemon *d, struct fault *why)
{
	struct past past = {0};
	char path[PLACE_MAX + 16];
	int r = loop_timer_init(&d->loop, &d->restore.grace, on_grace_over);

	snprintf(path, sizeof(path), "%s/journal", d->place);
	if (r == 0)
		r = journal_open(&d->restore.journal, path, on_record, &past, why);
	if (r < 0) {
		past_done(&past);
		return r;
	}
	if (past.last_tenant > d->tenants.last_id) /* of which events tell */
		d->tenants.last_id = (uint32_t)past.last_tenant;
	past_settle(&past);
	bring_all_back(d, &past);
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
	/* Memory that was left behind may have gone meanwhile. */
	measure_start(d);
	return 0;
}
