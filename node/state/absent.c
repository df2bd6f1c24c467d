/* SPDX-License-Identifier: Apache-2.0 */
#include "node/state/absent.h"

#include <string.h>

#include "node/daemon.h"
#include "node/process.h"
#include "base/journal.h"
#include "node/state/leftover.h"
#include "base/record.h"
#include "node/state/recorder.h"
#include "node/tenants/tenant_find.h"

struct absent {
	struct list link;
	uint32_t id; /* 0: records of no tenant */
	bool kept;
	struct record records; /* each ends in a newline; the first is the tenant's */
};

static struct absent *find(const struct daemon *d, uint32_t id)
{
	list_for_each(link, (struct list *)&d->restore.absent)
	{
		struct absent *a = list_entry(link, struct absent, link);

		if (a->id == id)
			return a;
	}
	return NULL;
}

static void drop(struct daemon *d, struct absent *a)
{
	list_remove(&a->link);
	d->restore.absent_count--;
	free(a->records.text);
	free(a);
}

static void add_record(struct absent *a, const char *record)
{
	record_text(&a->records, record);
	record_text(&a->records, "\n");
}

static int make(struct daemon *d, uint32_t id, struct absent **ret_absent)
{
	struct absent *a = d->restore.absent_count < DAEMON_TENANTS ? calloc(1, sizeof(*a)) : NULL;

	if (!a)
		return d->restore.absent_count < DAEMON_TENANTS ? -ENOMEM : -ENOSPC;
	a->id = id;
	list_append(&d->restore.absent, &a->link);
	d->restore.absent_count++;
	*ret_absent = a;
	return 0;
}

int absent_take(struct daemon *d, uint32_t id, const char *record)
{
	struct absent *a;
	int r = make(d, id, &a);

	if (r < 0)
		return r;
	add_record(a, record);
	if (!a->records.failed)
		return 0;
	drop(d, a);
	return -ENOMEM;
}

void absent_add(struct daemon *d, uint32_t id, const char *record)
{
	struct absent *a = find(d, id);

	if (!a && (id || make(d, id, &a) < 0))
		return;
	add_record(a, record);
}

bool absent_has(const struct daemon *d, uint32_t id)
{
	return id && find(d, id);
}

bool absent_any(const struct daemon *d)
{
	return d->restore.absent_count != 0;
}

bool absent_names(const struct daemon *d, const char *uuid)
{
	list_for_each(link, (struct list *)&d->restore.absent)
	{
		const struct absent *a = list_entry(link, struct absent, link);

		if (a->records.text && strstr(a->records.text, uuid))
			return true;
	}
	return false;
}

int absent_keep(struct daemon *d, uint32_t id, char *ret_folder, size_t size)
{
	struct absent *a = id ? find(d, id) : NULL;

	if (!a)
		return -ESRCH;
	if (tenant_find_folder(d, id, ret_folder, size) < 0)
		return -ESRCH;
	a->kept = true;
	return 0;
}

void absent_end(struct daemon *d, uint32_t id)
{
	struct absent *a = id ? find(d, id) : NULL;

	if (!a)
		return;
	drop(d, a);
	leftover_remove(d);
	recorder_tenant_gone(d, id);
	log_info("tenant.ended", "tenant=%u reason=\"its devices are not there\"", id);
}

void absent_write(const struct daemon *d, struct record *all)
{
	list_for_each(link, (struct list *)&d->restore.absent)
	{
		const struct absent *a = list_entry(link, struct absent, link);

		if (a->records.text)
			record_text(all, a->records.text);
		/* Incomplete records would describe another tenant: then the old journal stays. */
		all->failed |= a->records.failed;
	}
}

/* Whether a process in its guests' records is alive. */
static bool lives(struct looks *looks, const struct absent *a)
{
	const char *at = a->records.text;

	while (at && *at) {
		const char *end = strchr(at, '\n');
		char record[JOURNAL_RECORD_MAX + 1];
		pid_t pid;

		snprintf(record, sizeof(record), "%.*s", (int)(end - at), at);
		at = end + 1;
		pid = (pid_t)record_get_number(record, "pid");
		if (record_is(record, "guest") && pid > 0 &&
		    !process_is_gone(looks, pid, record_get_number(record, "started")))
			return true;
	}
	return false;
}

void absent_settle(struct daemon *d)
{
	list_for_each(link, &d->restore.absent)
	{
		const struct absent *a = list_entry(link, struct absent, link);

		if (a->id && !a->kept && !lives(d->looks, a))
			absent_end(d, a->id);
	}
}

void absent_close(struct daemon *d)
{
	list_for_each(link, &d->restore.absent) drop(d, list_entry(link, struct absent, link));
}
