/* SPDX-License-Identifier: Apache-2.0 */
#include "page/looks.h"

#include <string.h>

#include "page/news.h"
#include "page/rights.h"
#include "page/story.h"
#include "view/ps_write.h"
#include "view/why.h"

static const uint64_t ms_ns = 1000000;

static void forget_answers(struct looks *looks)
{
	for (uint32_t i = 0; i < looks->answers; i++)
		free(looks->answer[i].text);
	looks->answers = 0;
}

static void forget(struct looks *looks)
{
	forget_answers(looks);
	ps_rows_free(&looks->rows);
	looks->rows = (struct ps_rows){0};
	looks->since_ns = 0;
}

static void on_forget(struct loop_timer *timer)
{
	forget(container_of(timer, struct looks, forget));
}

int looks_open(struct looks *looks, const struct page_host *host)
{
	looks->host = host;
	looks->names.host = host;
	looks->said = (struct ps_names){.user = names_user, .owner = &looks->names};
	return loop_timer_init(host->loop, &looks->forget, on_forget);
}

void looks_close(struct looks *looks, void (*closed)(struct loop_timer *timer))
{
	forget(looks);
	loop_timer_close(&looks->forget, closed);
}

static void on_row(void *owner, const struct wire_message *row)
{
	struct looks *looks = owner;
	struct wire_message *added = ps_rows_add(&looks->rows);

	looks->lacking |= !added;
	if (added)
		*added = *row;
}

static void on_event(void *owner, const struct wire_event_row *event)
{
	struct looks *looks = owner;

	looks->happened = event->number;
}

static void gather_boards(struct looks *looks)
{
	const struct page_host *host = looks->host;

	for (uint32_t i = 0; i < LOOKS_BOARDS; i++)
		looks->board[i] = host->board(host->daemon, i);
	looks->boards_ns = host->boards_since_ns(host->daemon);
	looks->rows.board = looks->board;
	looks->rows.boards = LOOKS_BOARDS;
}

/* Rows from before anybody asked what boards say do not do once it is said. */
static bool is_recent(const struct looks *looks, uint64_t at)
{
	bool has_boards = looks->since_ns - looks->boards_ns < LOOKS_KEPT_MS * ms_ns;

	return looks->since_ns && at - looks->since_ns < LOOKS_FRESH_MS * ms_ns &&
	       (has_boards ||
		looks->boards_ns == looks->host->boards_since_ns(looks->host->daemon));
}

int looks_gather(struct looks *looks, bool now)
{
	uint64_t at = loop_now_ns();

	loop_arm(&looks->forget, LOOKS_KEPT_MS * ms_ns);
	if (!now && is_recent(looks, at))
		return 0;
	forget_answers(looks);
	looks->rows.count = 0;
	looks->lacking = false;
	looks->rows.names = &looks->said;
	looks->host->tell(looks->host->daemon, &looks->rows.daemon);
	looks->host->rows(looks->host->daemon, on_row, looks);
	looks->host->events(looks->host->daemon, looks->happened, on_event, looks);
	gather_boards(looks);
	/* What has been measured meanwhile is in the next ones. */
	looks->host->freshen(looks->host->daemon);
	/* A process without its tenant's row would be taken for the one before it. */
	if (looks->lacking) {
		forget(looks);
		return -ENOMEM;
	}
	looks->since_ns = at;
	return 0;
}

static void write_viewer(FILE *out, const struct looks *looks, const struct sight *sight)
{
	fprintf(out, "\"sees\":\"%s\",\"viewer\":", sight_all(sight) ? "all" : "own");
	if (sight->rights)
		ps_write_text(out, rights_name(sight->rights));
	else
		ps_write_text(out,
			      sight->all ? "" : names_user((void *)&looks->names, sight->uid).text);
}

/* Of a kind, those that `is` lets through. */
static void write_list(FILE *out, const struct ps_rows *rows, uint32_t code, const char *key,
		       bool (*is)(const struct wire_message *row, const void *like),
		       const void *like)
{
	const char *between = "";

	fprintf(out, ",\"%s\":[", key);
	for (size_t i = 0; i < rows->count; i++) {
		const struct wire_message *row = &rows->row[i];

		if (row->code != code || (is && !is(row, like)))
			continue;
		fputs(between, out);
		between = ",";
		if (code == WIRE_device_row)
			ps_write_device(out, rows, &row->device_row);
		else if (code == WIRE_tenant_row)
			ps_write_tenant(out, rows, &row->tenant_row);
		else
			ps_write_outside(out, rows, &row->outside_row);
	}
	fputc(']', out);
}

static int finish(FILE *out, char **text, char **ret_text)
{
	if (fclose(out) == 0) {
		*ret_text = take(*text);
		return 0;
	}
	free(*text);
	return -ENOMEM;
}

static struct looks_answer *of(struct looks *looks, const struct sight *sight)
{
	for (uint32_t i = 0; i < looks->answers; i++)
		if (sight_same(&looks->answer[i].sight, sight))
			return &looks->answer[i];
	/* The last place is for who sees all. */
	if (looks->answers >= (sight_all(sight) ? LOOKS_ANSWERS : LOOKS_ANSWERS - 1u))
		return NULL;
	looks->answer[looks->answers] = (struct looks_answer){.sight = *sight};
	return &looks->answer[looks->answers++];
}

/* Counts one more answer. -EBUSY. */
static int count(struct looks *looks, const struct sight *sight, struct looks_answer **ret_answer)
{
	int r = looks_gather(looks, false);
	struct looks_answer *answer = r == 0 ? of(looks, sight) : NULL;

	if (r == 0 && (!answer || answer->copies == LOOKS_COPIES_MOST))
		r = -EBUSY;
	if (r < 0)
		return r;
	answer->copies++;
	*ret_answer = answer;
	return 0;
}

int looks_may_begin(struct looks *looks, const struct sight *sight)
{
	struct looks_answer *answer = of(looks, sight);

	if (!answer || answer->crowds == LOOKS_CROWDS_MOST)
		return -EBUSY;
	answer->crowds++;
	return 0;
}

/* What is seen, and where it is written. */
static int begin(struct looks *looks, const struct sight *sight, struct ps_rows *ret_rows,
		 FILE **ret_out, char **text, size_t *size)
{
	int r = sight_look(sight, &looks->rows, ret_rows);

	if (r < 0)
		return r;
	*ret_out = open_memstream(text, size);
	if (*ret_out)
		return 0;
	ps_rows_free(ret_rows);
	return -ENOMEM;
}

/* For an answer that is not kept. */
static int begin_counted(struct looks *looks, const struct sight *sight, struct ps_rows *ret_rows,
			 FILE **ret_out, char **text, size_t *size)
{
	struct looks_answer *answer;
	int r = count(looks, sight, &answer);

	return r < 0 ? r : begin(looks, sight, ret_rows, ret_out, text, size);
}

static void write_all(FILE *out, struct looks *looks, const struct sight *sight,
		      const struct ps_rows *rows)
{
	write_viewer(out, looks, sight);
	fputs(",\"meted\":", out);
	ps_write_meted(out, rows, &rows->daemon);
	write_list(out, rows, WIRE_device_row, "devices", NULL, NULL);
	write_list(out, rows, WIRE_tenant_row, "tenants", NULL, NULL);
	write_list(out, rows, WIRE_outside_row, "outside", NULL, NULL);
	news_write(out, &(struct news){.host = looks->host,
				       .all = sight_all(sight),
				       .told = sight->rights != NULL,
				       .uid = sight->uid,
				       .rows = rows,
				       .upto = looks->happened});
}

int looks_write(FILE *out, struct looks *looks, const struct sight *sight)
{
	struct ps_rows rows;
	int r = sight_look(sight, &looks->rows, &rows);

	if (r < 0)
		return r;
	write_all(out, looks, sight, &rows);
	ps_rows_free(&rows);
	return 0;
}

static int write_node(struct looks *looks, const struct sight *sight, char **ret_text)
{
	struct ps_rows rows;
	char *text = NULL;
	size_t size;
	FILE *out = NULL;
	int r = begin(looks, sight, &rows, &out, &text, &size);

	if (r < 0)
		return r;
	fputc('{', out);
	write_all(out, looks, sight, &rows);
	fputs("}\n", out);
	ps_rows_free(&rows);
	return finish(out, &text, ret_text);
}

int looks_node(struct looks *looks, const struct sight *sight, char **ret_text)
{
	struct looks_answer *answer;
	int r = count(looks, sight, &answer);

	if (r == 0 && !answer->text)
		r = write_node(looks, sight, &answer->text);
	if (r < 0)
		return r;
	*ret_text = strdup(answer->text);
	return *ret_text ? 0 : -ENOMEM;
}

static bool is_named(const struct wire_message *row, const void *like)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", row->tenant_row.tenant);
	return strcmp(row->tenant_row.name.text, like) == 0 || strcmp(number, like) == 0;
}

static bool is_on(const struct wire_message *row, const void *like)
{
	return row->tenant_row.device == *(const uint32_t *)like;
}

static bool has(const struct ps_rows *rows, const char *name)
{
	for (size_t i = 0; i < rows->count; i++)
		if (rows->row[i].code == WIRE_tenant_row && is_named(&rows->row[i], name))
			return true;
	return false;
}

struct sentences {
	FILE *out;
	const char *between;
};

static void write_sentence(void *owner, const char *sentence)
{
	struct sentences *to = owner;

	fputs(to->between, to->out);
	ps_write_text(to->out, sentence);
	to->between = ",";
}

/* Of one tenant, and not of all: its neighbours are looked through for it. */
static void write_why(FILE *out, const struct ps_rows *rows, const char *name)
{
	const char *between = ",\"why\":[";

	for (size_t i = 0; i < rows->count; i++) {
		const struct wire_tenant_row *t = &rows->row[i].tenant_row;
		struct sentences to = {out, ""};

		if (rows->row[i].code != WIRE_tenant_row || !is_named(&rows->row[i], name))
			continue;
		fprintf(out, "%s{\"tenant\":%u,\"device\":%u,\"waits\":%s,\"sentences\":[", between,
			t->tenant, t->device, why_waits(t) ? "true" : "false");
		why_say(rows, t, write_sentence, &to);
		fputs("]}", out);
		between = ",";
	}
	fputc(']', out);
}

int looks_tenant(struct looks *looks, const struct sight *sight, const char *name, char **ret_text)
{
	struct ps_rows rows;
	char *text = NULL;
	size_t size;
	FILE *out = NULL;
	bool any;
	int r = begin_counted(looks, sight, &rows, &out, &text, &size);

	if (r < 0)
		return r;
	any = has(&rows, name);
	fputc('{', out);
	write_viewer(out, looks, sight);
	write_list(out, &rows, WIRE_tenant_row, "tenants", is_named, name);
	if (any) {
		write_why(out, &rows, name);
		story_write(out, looks->host, &rows, name, sight_all(sight));
	}
	fputs("}\n", out);
	ps_rows_free(&rows);
	r = finish(out, &text, ret_text);
	if (r == 0 && !any)
		free(take(*ret_text));
	return r == 0 && !any ? -ENOENT : r;
}

static const struct wire_device_row *find_device(const struct ps_rows *rows, const char *name)
{
	for (size_t i = 0; i < rows->count; i++) {
		const struct wire_device_row *device = &rows->row[i].device_row;
		char number[16];

		if (rows->row[i].code != WIRE_device_row)
			continue;
		snprintf(number, sizeof(number), "%u", device->index);
		if (strcmp(ps_uuid(device).text, name) == 0 || strcmp(number, name) == 0)
			return device;
	}
	return NULL;
}

int looks_device(struct looks *looks, const struct sight *sight, const char *name, char **ret_text)
{
	const struct wire_device_row *device;
	struct ps_rows rows;
	char *text = NULL;
	size_t size;
	FILE *out = NULL;
	int r = begin_counted(looks, sight, &rows, &out, &text, &size);

	if (r < 0)
		return r;
	device = find_device(&rows, name);
	fputc('{', out);
	write_viewer(out, looks, sight);
	if (device) {
		fputs(",\"device\":", out);
		ps_write_device(out, &rows, device);
		write_list(out, &rows, WIRE_tenant_row, "tenants", is_on, &device->index);
	}
	fputs("}\n", out);
	r = finish(out, &text, ret_text);
	if (r == 0 && !device)
		free(take(*ret_text));
	r = r == 0 && !device ? -ENOENT : r;
	ps_rows_free(&rows);
	return r;
}
