/* SPDX-License-Identifier: Apache-2.0 */
#include "page/story.h"

#include <stdlib.h>
#include <string.h>

#include "page/news.h"
#include "view/event_write.h"

struct story {
	FILE *out;
	const char *between;
	bool all;
	uint32_t *tenants; /* that it is about */
	size_t count;
};

static bool is_named(const struct wire_tenant_row *t, const char *name)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", t->tenant);
	return strcmp(t->name.text, name) == 0 || strcmp(number, name) == 0;
}

/* Once: there may be many rows, and many events. Without memory it is about nobody. */
static void find(struct story *story, const struct ps_rows *rows, const char *name)
{
	story->tenants = calloc(rows->count, sizeof(*story->tenants));
	for (size_t i = 0; story->tenants && i < rows->count; i++) {
		const struct wire_tenant_row *t = &rows->row[i].tenant_row;

		if (rows->row[i].code == WIRE_tenant_row && is_named(t, name))
			story->tenants[story->count++] = t->tenant;
	}
}

static bool is_told(const struct story *story, uint32_t tenant)
{
	for (size_t i = 0; i < story->count; i++)
		if (story->tenants[i] == tenant)
			return true;
	return false;
}

static void on_event(void *owner, const struct wire_event_row *event)
{
	struct story *story = owner;
	struct wire_event_row told = *event;

	if (!event->tenant || !is_told(story, event->tenant))
		return;
	news_withhold(&told, story->all);
	fputs(story->between, story->out);
	event_write(story->out, &told);
	story->between = ",";
}

void story_write(FILE *out, const struct page_host *host, const struct ps_rows *rows,
		 const char *name, bool all)
{
	struct story story = {.out = out, .between = "", .all = all};

	find(&story, rows, name);
	news_write_clock(out);
	fputs(",\"events\":[", out);
	host->events(host->daemon, 0, on_event, &story);
	fputc(']', out);
	free(story.tenants);
}
