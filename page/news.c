/* SPDX-License-Identifier: Apache-2.0 */
#include "page/news.h"

#include <time.h>

#include "core/happened.h"
#include "view/event_write.h"

/* What devices are said to be is seen by all. A program that goes past mete is somebody's. */
static bool is_of_all(const struct wire_event_row *event)
{
	return event->kind == HAPPENED_BEGAN || event->kind == HAPPENED_CORDONED ||
	       event->kind == HAPPENED_UNCORDONED || event->kind == HAPPENED_UNHEALTHY ||
	       event->kind == HAPPENED_HEALTHY;
}

/* By the cluster's word a tenant is seen as long as it is there: the name in an event may be one
 * that a tenant within another one chose itself. */
bool news_seen(const struct news *news, const struct wire_event_row *event)
{
	if (news->all)
		return true;
	if (!event->tenant)
		return is_of_all(event);
	if (!news->told)
		return event->owner == news->uid;
	return ps_tenant(news->rows, event->tenant) ||
	       (news->before && ps_tenant(news->before, event->tenant));
}

void news_withhold(struct wire_event_row *event, bool all)
{
	if (all)
		return;
	if (event->kind == HAPPENED_REFUSED)
		wire_set_text(&event->said, "memory was refused to one of its processes");
	else if (event->kind == HAPPENED_BEGAN)
		wire_set_text(&event->said, "meted began"); /* and found so many tenants */
}

/* The events of one reading: counted, and then the last of them written. */
struct reading {
	const struct news *news;
	FILE *out; /* NULL: they are counted */
	size_t count, skip;
};

static void on_event(void *owner, const struct wire_event_row *event)
{
	struct reading *reading = owner;
	struct wire_event_row told;

	if (event->number > reading->news->upto || !news_seen(reading->news, event))
		return;
	if (reading->count++ < reading->skip || !reading->out)
		return;
	told = *event;
	news_withhold(&told, reading->news->all);
	if (reading->count > reading->skip + 1)
		fputc(',', reading->out);
	event_write(reading->out, &told);
}

static size_t count_them(const struct news *news)
{
	struct reading reading = {.news = news};

	news->host->events(news->host->daemon, news->after, on_event, &reading);
	return reading.count;
}

static void write_last(FILE *out, const struct news *news, size_t count)
{
	struct reading reading = {.news = news, .out = out};

	if (count > NEWS_MOST)
		reading.skip = count - NEWS_MOST;
	news_write_clock(out);
	fputs(",\"events\":[", out);
	if (count)
		news->host->events(news->host->daemon, news->after, on_event, &reading);
	fputc(']', out);
}

void news_write_clock(FILE *out)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	fprintf(out, ",\"clock\":\"%s\"",
		event_time((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec).text);
}

void news_write(FILE *out, const struct news *news)
{
	write_last(out, news, count_them(news));
}

bool news_write_any(FILE *out, const struct news *news)
{
	size_t count = count_them(news);

	if (count)
		write_last(out, news, count);
	return count > 0;
}
