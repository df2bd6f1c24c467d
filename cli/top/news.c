/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/news.h"

#include <string.h>
#include <time.h>

#include "base/least.h"
#include "base/place.h"
#include "cli/events.h"
#include "core/happened.h"

enum { WIDE = 72 }; /* columns with room for the kind and the GPU beside what is said */

static const uint64_t second_ns = 1000000000;

/* A meted that knows nothing of the former one's events counts anew. */
static void add(void *owner, const struct wire_event_row *event)
{
	struct news *news = owner;

	if (event->number <= news->after)
		news->count = news->first = 0;
	news->row[news->count++ % NEWS_MOST] = *event;
	news->after = event->number;
}

static int ask(struct news *news, struct admin *admin, struct fault *why)
{
	struct wire_message request = {.code = WIRE_events_ask};
	int r;

	request.events_ask.after = news->after;
	r = admin_send(admin, &request, why);
	return r < 0 ? r : events_rows(admin, add, news, why);
}

static int ask_at(struct news *news, struct remote *remote, struct fault *why)
{
	owned(admin_close) struct admin admin = {.fd = -1};
	char place[PLACE_MAX];
	int r;

	if (remote->node) {
		r = remote_connect(remote, why);
		return r < 0 ? r : remote_check(remote, ask(news, &remote->admin, why), why);
	}
	r = admin_connect_any(&admin, place, why);
	if (r == ADMIN_ABSENT)
		return fault_set(why, -ESRCH,
				 "no meted is running: `mete events` tells what its last one has");
	return r < 0 ? r : ask(news, &admin, why);
}

int news_refresh(struct news *news, struct remote *remote, struct fault *why)
{
	if (!news->row)
		news->row = calloc(NEWS_MOST, sizeof(*news->row));
	if (!news->row)
		return fault_set(why, -ENOMEM, "out of memory");
	news->trouble.text[0] = '\0';
	best_effort(ask_at(news, remote, &news->trouble));
	return 0;
}

static size_t known(const struct news *news)
{
	return least(news->count, NEWS_MOST);
}

void news_step(struct news *news, long lines)
{
	size_t last = known(news) ? known(news) - 1 : 0, up = lines < 0 ? (size_t)-lines : 0;

	news->first =
		lines < 0 ? beyond(news->first, up) : least(news->first + (size_t)lines, last);
}

/* Of today the time alone. */
static void say_when(uint64_t at_ns, char *ret_text, size_t size)
{
	time_t at = (time_t)(at_ns / second_ns), now = time(NULL);
	struct tm then, today;

	*ret_text = '\0';
	if (!localtime_r(&at, &then) || !localtime_r(&now, &today))
		return;
	strftime(ret_text, size,
		 then.tm_yday == today.tm_yday && then.tm_year == today.tm_year ? "%H:%M:%S"
										: "%m-%d %H:%M",
		 &then);
}

/* A third of the line, at most: what is said of it has the rest. */
static void cut_name(const struct page *page, const char *name, char *ret_name, size_t size)
{
	FILE *out = fmemopen(ret_name, size, "w");

	*ret_name = '\0';
	if (!out)
		return;
	grid_field(out, &page->screen, name, least(grid_width(name), page->screen.width / 3));
	fclose(out);
}

static void put_event(const struct page *page, const struct wire_event_row *event)
{
	char when[32], device[16] = "", name[WIRE_TEXT_MAX + 8], line[3 * WIRE_TEXT_MAX];
	bool wide = page->screen.width >= WIDE;
	size_t n;

	say_when(event->at, when, sizeof(when));
	if (event->device != UINT32_MAX)
		snprintf(device, sizeof(device), "GPU %u", event->device);
	n = (size_t)snprintf(line, sizeof(line), "%-11s  ", when);
	if (wide)
		n += (size_t)snprintf(line + n, sizeof(line) - n, "%-10s  %-6s  ",
				      happened_word(event->kind), device);
	if (event->tenant) {
		cut_name(page, event->name.text, name, sizeof(name));
		n += (size_t)snprintf(line + n, sizeof(line) - n, "%s: ", name);
	}
	snprintf(line + n, sizeof(line) - n, "%s", event->said.text);
	grid_field(page->out, &page->screen, line, page->screen.width);
	fputc('\n', page->out);
}

void news_write(const struct page *page, struct news *news, unsigned lines)
{
	char heading[sizeof(news->trouble.text) + 100];

	snprintf(heading, sizeof(heading),
		 "what has happened, the newest first; e: the tenants%s%s",
		 news->trouble.text[0] ? "; " : "", news->trouble.text);
	grid_begin(page->out, &page->screen, GRID_HEAD);
	grid_field(page->out, &page->screen, heading, page->screen.width);
	grid_end(page->out, &page->screen, GRID_HEAD);
	fputc('\n', page->out);
	for (size_t back = news->first; back < known(news) && back + 1 < news->first + lines;
	     back++)
		put_event(page, &news->row[(news->count - 1 - back) % NEWS_MOST]);
	if (!known(news) && !news->trouble.text[0])
		fputs("nothing yet\n", page->out);
}

void news_free(struct news *news)
{
	free(news->row);
}
