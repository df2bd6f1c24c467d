/* SPDX-License-Identifier: Apache-2.0 */
#include "page/story.h"

#include <string.h>
#include <time.h>

#include "core/happened.h"
#include "view/event_write.h"

struct story {
	FILE *out;
	const struct ps_rows *rows;
	const char *name, *between;
	bool all;
};

static bool is_told(const struct story *story, uint32_t tenant)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", tenant);
	for (size_t i = 0; i < story->rows->count; i++) {
		const struct wire_tenant_row *t = &story->rows->row[i].tenant_row;

		if (story->rows->row[i].code == WIRE_tenant_row && t->tenant == tenant)
			return strcmp(t->name.text, story->name) == 0 ||
			       strcmp(number, story->name) == 0;
	}
	return false;
}

static void on_event(void *owner, const struct wire_event_row *event)
{
	struct story *story = owner;
	struct wire_event_row told = *event;

	if (!event->tenant || !is_told(story, event->tenant))
		return;
	if (!story->all && event->kind == HAPPENED_REFUSED)
		wire_set_text(&told.said, "memory was refused to one of its processes");
	fputs(story->between, story->out);
	event_write(story->out, &told);
	story->between = ",";
}

void story_write(FILE *out, const struct page_host *host, const struct ps_rows *rows,
		 const char *name, bool all)
{
	struct story story = {.out = out, .rows = rows, .name = name, .between = "", .all = all};
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	fprintf(out, ",\"clock\":\"%s\",\"events\":[",
		event_time((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec).text);
	host->events(host->daemon, on_event, &story);
	fputc(']', out);
}
