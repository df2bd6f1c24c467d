/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The events of a meted that has ended: a user's own ends with its last tenant, and then people ask
 * what has happened. Its file, which node/state/events_file.c writes, is the user's.
 */
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

int events_read_kept(struct events_order *order)
{
	char place[PLACE_MAX], path[PLACE_MAX + 16];
	owned(free) char *text = NULL;
	struct fault why;
	size_t size;

	if (place_user(place, &why) < 0)
		return ADMIN_ABSENT;
	snprintf(path, sizeof(path), "%s/events", place);
	if (file_slurp(path, FILE_MOST, &text, &size) < 0)
		return ADMIN_ABSENT;
	journal_scan(text, size, on_record, order);
	return 0;
}
