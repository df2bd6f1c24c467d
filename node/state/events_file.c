/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A record, in the journal's form, in one line:
 *
 *	event number=17 at=1790000000000000000 kind=9 tenant=3 owner=1000 user=1000
 *	      outermost=3 index=0 device=GPU-... name=job said=%xx..
 *
 * A device is written as its UUID, as another one may have its index after a restart; and with its
 * index for cli/events_kept.c, which reads the file where no meted runs.
 */
#include "node/state/events_file.h"

#include <string.h>

#include "node/events.h"
#include "base/journal.h"
#include "base/record.h"
#include "node/upcalls.h"

static const uint64_t pause_ns = 10000000000;

struct events_file {
	struct journal journal;
	uint32_t appended; /* since it was written anew */
	bool broken;
	uint64_t again_ns; /* when it is tried again, if it is broken */
};

static void write_event(struct record *record, const struct daemon *d, const struct event *event)
{
	record_text(record, "event");
	record_number(record, "number", event->number);
	record_number(record, "at", event->at_ns);
	record_number(record, "kind", event->kind);
	record_number(record, "tenant", event->tenant);
	record_number(record, "owner", event->owner);
	record_number(record, "user", event->whose.user);
	record_number(record, "outermost", event->whose.tenant);
	if (event->device < d->devices) {
		record_number(record, "index", event->device);
		record_value(record, "device", d->device[event->device].info->uuid_text);
	}
	record_value(record, "name", event->name);
	record_value(record, "said", event->said);
}

static void on_record(void *context, const char *record)
{
	struct daemon *d = context;
	char name[WIRE_TEXT_MAX + 1], said[WIRE_TEXT_MAX + 1], device[WIRE_TEXT_MAX + 1];
	struct event like = {
		.number = record_get_number(record, "number"),
		.at_ns = record_get_number(record, "at"),
		.kind = (uint32_t)record_get_number(record, "kind"),
		.tenant = (uint32_t)record_get_number(record, "tenant"),
		.device = EVENTS_NONE,
		.owner = (uint32_t)record_get_number(record, "owner"),
		.whose = {.user = record_get_number(record, "user"),
			  .tenant = record_get_number(record, "outermost")},
		.name = name,
	};

	if (!record_get(record, "name", name, sizeof(name)) ||
	    !record_get(record, "said", said, sizeof(said)))
		return;
	if (record_get(record, "device", device, sizeof(device)) &&
	    daemon_find_device(d, device, &like.device) < 0)
		like.device = EVENTS_NONE;
	events_bring_back(d, &like, said);
}

static int write_anew(struct daemon *d)
{
	struct events_file *file = d->events.file;
	struct record all = {0};
	int r;

	record_text(&all, "");
	for (uint32_t i = 0; i < d->events.count; i++) {
		write_event(&all, d, d->events.event[i]);
		record_text(&all, "\n");
	}
	r = all.failed ? -ENOMEM : journal_rewrite(&file->journal, all.text);
	free(all.text);
	if (r == 0)
		file->appended = 0;
	return r;
}

static int append(struct events_file *file, const struct daemon *d, const struct event *event)
{
	struct record record = {0};
	int r;

	write_event(&record, d, event);
	r = record.failed ? -ENOMEM : journal_append(&file->journal, record.text);
	free(record.text);
	file->appended++;
	return r;
}

static void note(struct events_file *file, int r)
{
	if (r < 0 && !file->broken)
		log_warning("events.lost",
			    "path=%s reason=%s: the next meted would not know what happens now",
			    file->journal.path, log_text(strerror(-r)).text);
	if (r == 0 && file->broken)
		log_info("events.back", "path=%s", file->journal.path);
	file->broken = r < 0;
	file->again_ns = loop_now_ns() + pause_ns;
}

void events_file_add(struct daemon *d, const struct event *event)
{
	struct events_file *file = d->events.file;

	/* On a disk that stays full, a new file for each event would cost more than all else. */
	if (!file || (file->broken && loop_now_ns() < file->again_ns))
		return;
	/* A whole new file has what was lost before, and this event. */
	note(file, file->broken || file->appended >= EVENTS_MOST ? write_anew(d)
								 : append(file, d, event));
}

void events_file_open(struct daemon *d)
{
	struct events_file *file = calloc(1, sizeof(*file));
	char path[PLACE_MAX + 16];
	struct fault why;
	int r;

	snprintf(path, sizeof(path), "%s/events", d->place);
	if (!file)
		return;
	r = journal_open(&file->journal, path, on_record, d, &why);
	d->events.file = file;
	if (r < 0)
		log_warning("events.unread", "reason=%s", log_text(why.text).text);
	note(file, write_anew(d));
}

void events_file_close(struct daemon *d)
{
	if (d->events.file && d->events.file->broken)
		note(d->events.file, write_anew(d));
	if (d->events.file)
		journal_close(&d->events.file->journal);
	free(d->events.file);
	d->events.file = NULL;
}
