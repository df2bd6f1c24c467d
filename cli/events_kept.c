/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of a meted that has ended: a user's own ends with its last tenant, and the system's
 * may be stopped; then people ask what has happened. Its file, which node/state/events_file.c
 * writes, only its user can read.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/journal.h"
#include "base/place.h"
#include "base/record.h"
#include "base/text.h"
#include "cli/events.h"

enum { FILE_MOST = 16 << 20 };

static void on_record(void *context, const char *record)
{
	struct wire_event_row row = {
		.number = record_get_number(record, "number"),
		.at = record_get_number(record, "at"),
		.kind = (uint32_t)record_get_number(record, "kind"),
		.tenant = (uint32_t)record_get_number(record, "tenant"),
		.device = UINT32_MAX,
		.owner = (uint32_t)record_get_number(record, "owner"),
	};
	char index[16];

	if (!record_get(record, "name", row.name.text, sizeof(row.name.text)) ||
	    !record_get(record, "said", row.said.text, sizeof(row.said.text)))
		return;
	if (record_get(record, "index", index, sizeof(index)))
		row.device = (uint32_t)record_get_number(record, "index");
	text_make_plain(row.name.text);
	text_make_plain(row.said.text);
	events_take(context, &row);
}

struct kept {
	char path[PLACE_MAX + 16];
	struct stat file; /* what is not there is older than all that is */
	bool there;
};

/* The file in a folder that nobody but its owner can have written to. */
static struct kept look_at(const char *place, uid_t owner, unsigned mode)
{
	struct kept kept = {.there = false};
	struct fault why;

	snprintf(kept.path, sizeof(kept.path), "%s/events", place);
	kept.there = place_check(place, owner, mode, &why) == 0 &&
		     lstat(kept.path, &kept.file) == 0 && S_ISREG(kept.file.st_mode);
	return kept;
}

static bool is_later(const struct kept *a, const struct kept *b)
{
	const struct timespec *x = &a->file.st_mtim, *y = &b->file.st_mtim;

	return x->tv_sec != y->tv_sec ? x->tv_sec > y->tv_sec : x->tv_nsec > y->tv_nsec;
}

/* Root may have used both: the one that has told something last is meant. */
static const struct kept *latest(const struct kept *system, const struct kept *own)
{
	if (!system->there)
		return own;
	return own->there && is_later(own, system) ? own : system;
}

int events_read_kept(struct events_order *order)
{
	struct kept own = {.there = false}, system;
	const char *whose = "the", *besides = "";
	owned(free) char *text = NULL;
	const struct kept *meant;
	char place[PLACE_MAX];
	struct fault why;
	size_t size;

	system = look_at(PLACE_SYSTEM, 0, PLACE_READABLE);
	if (place_user(place, &why) == 0)
		own = look_at(place, getuid(), PLACE_PRIVATE);
	meant = latest(&system, &own);
	if (meant == &system && access(system.path, R_OK) == 0) {
		whose = "the system's";
	} else if (meant == &system) {
		whose = "your own";
		besides = "; what the system's has told since only root may read";
		meant = &own;
	}
	if (file_slurp(meant->path, FILE_MOST, &text, &size) < 0)
		return system.there ? EVENTS_SYSTEMS : ADMIN_ABSENT;
	fprintf(stderr, "mete events: no meted is running: this is what %s last one has told%s\n",
		whose, besides);
	journal_scan(text, size, on_record, order);
	return 0;
}
