/* SPDX-License-Identifier: Apache-2.0 */
#include "page/crowd_look.h"

#include <string.h>

#include "page/lines.h"
#include "page/news.h"
#include "view/ps_write.h"

void crowd_look_free(struct crowd_look *look)
{
	for (size_t i = 0; look->text && i < look->rows.count; i++)
		free(look->text[i]);
	free(look->text);
	free(look->meted);
	free(look->outside);
	ps_rows_free(&look->rows);
	*look = (struct crowd_look){0};
}

static bool has_text(const struct wire_message *row)
{
	return row->code == WIRE_device_row || row->code == WIRE_tenant_row;
}

static bool same_thing(const struct wire_message *a, const struct wire_message *b)
{
	if (a->code != b->code)
		return false;
	if (a->code == WIRE_device_row)
		return a->device_row.index == b->device_row.index;
	return a->tenant_row.tenant == b->tenant_row.tenant &&
	       a->tenant_row.device == b->tenant_row.device;
}

/* Rows come in the same order each time: it is usually the one after the last that was found. */
static size_t find(const struct crowd_look *in, const struct wire_message *row, size_t *from)
{
	size_t count = in->rows.count;

	for (size_t n = 0; n < count; n++) {
		size_t i = (*from + n) % count;

		if (!has_text(&in->rows.row[i]) || !same_thing(&in->rows.row[i], row))
			continue;
		*from = i + 1;
		return i;
	}
	return SIZE_MAX;
}

/* Of a tenant's row: the processes behind it. */
static size_t guests_behind(const struct ps_rows *rows, size_t at)
{
	size_t n = 0;

	if (rows->row[at].code != WIRE_tenant_row)
		return 0;
	while (at + 1 + n < rows->count && rows->row[at + 1 + n].code == WIRE_guest_row)
		n++;
	return n;
}

/* They grow all the time, and nobody has to be told. */
static void forget_ages(struct ps_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++) {
		if (rows->row[i].code == WIRE_tenant_row)
			rows->row[i].tenant_row.age = 0;
		if (rows->row[i].code == WIRE_guest_row)
			rows->row[i].guest_row.age = 0;
	}
}

static bool same_rows(const struct ps_rows *now, size_t at, const struct ps_rows *before,
		      size_t old)
{
	size_t count = guests_behind(now, at);

	/* What its board says is no part of a device's row. */
	if (now->row[at].code == WIRE_device_row)
		return false;
	/* A sentence on one row may speak of another one. */
	if (!now->flat || !before->flat ||
	    (now->row[at].code == WIRE_tenant_row && now->row[at].tenant_row.behind))
		return false;
	return count == guests_behind(before, old) &&
	       memcmp(&now->row[at], &before->row[old], (count + 1) * sizeof(now->row[0])) == 0;
}

static char *text_of(const struct ps_rows *rows, const struct wire_message *row)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	if (row->code == WIRE_device_row)
		ps_write_device(out, rows, &row->device_row);
	else
		ps_write_tenant(out, rows, &row->tenant_row);
	if (fclose(out) == 0)
		return text;
	free(text);
	return NULL;
}

static void write_name(FILE *out, const struct wire_message *row)
{
	if (row->code == WIRE_device_row)
		fprintf(out, "{\"index\":%u", row->device_row.index);
	else
		fprintf(out, "{\"tenant\":%u,\"device\":%u", row->tenant_row.tenant,
			row->tenant_row.device);
}

/* What is written of one list of the change. */
struct list {
	FILE *out;
	const char *between;
	bool *any;
};

static void write_change(struct list *to, const struct wire_message *row, const char *before,
			 const char *now)
{
	owned(free) char *text = NULL;
	size_t size;
	FILE *out;
	bool any;

	if (!before) {
		fputs(to->between, to->out);
		lines_join(to->out, now);
	} else {
		out = open_memstream(&text, &size);
		if (!out)
			return;
		any = lines_change(out, before, now);
		if (fclose(out) != 0 || !any)
			return;
		fputs(to->between, to->out);
		write_name(to->out, row);
		fputs(text, to->out);
		fputc('}', to->out);
	}
	to->between = ",";
	*to->any = true;
}

static int look_at_row(struct crowd_look *look, size_t at, struct crowd_look *before, size_t *from,
		       struct list *to)
{
	const struct wire_message *row = &look->rows.row[at];
	size_t old = find(before, row, from);
	char *had = NULL;

	if (old != SIZE_MAX) {
		had = take(before->text[old]);
		/* So that those that are gone are known by their texts. */
		if (had && same_rows(&look->rows, at, &before->rows, old)) {
			look->text[at] = had;
			return 0;
		}
	}
	look->text[at] = text_of(&look->rows, row);
	if (look->text[at])
		write_change(to, row, had, look->text[at]);
	free(had);
	return look->text[at] ? 0 : -ENOMEM;
}

static int look_at_kind(struct crowd_look *look, struct crowd_look *before, uint32_t code,
			struct list *to)
{
	size_t from = 0;
	int r = 0;

	for (size_t i = 0; r == 0 && i < look->rows.count; i++)
		if (look->rows.row[i].code == code)
			r = look_at_row(look, i, before, &from, to);
	return r;
}

static void write_gone(const struct crowd_look *before, struct list *to)
{
	for (size_t i = 0; i < before->rows.count; i++) {
		if (!before->text[i])
			continue;
		fputs(to->between, to->out);
		write_name(to->out, &before->rows.row[i]);
		fputc('}', to->out);
		to->between = ",";
		*to->any = true;
	}
}

static char *meted_of(const struct ps_rows *rows)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	ps_write_meted(out, rows, &rows->daemon);
	fclose(out);
	return text;
}

static char *outside_of(const struct ps_rows *rows)
{
	const char *between = "";
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	fputc('[', out);
	for (size_t i = 0; i < rows->count; i++) {
		if (rows->row[i].code != WIRE_outside_row)
			continue;
		fputs(between, out);
		ps_write_outside(out, rows, &rows->row[i].outside_row);
		between = ",";
	}
	fputc(']', out);
	fclose(out);
	return text;
}

/* What is written whole where it has changed. */
static void write_whole(FILE *change, const char *key, const char *before, const char *now,
			bool *any)
{
	if (!now || (before && strcmp(before, now) == 0))
		return;
	fprintf(change, ",\"%s\":", key);
	lines_join(change, now);
	*any = true;
}

static int compare(struct crowd_look *look, struct crowd_look *before, const struct news *news,
		   FILE *change, bool *any)
{
	struct list to = {.out = change, .between = "", .any = any};
	int r;

	fputs("{\"devices\":[", change);
	r = look_at_kind(look, before, WIRE_device_row, &to);
	fputs("],\"tenants\":[", change);
	to.between = "";
	if (r == 0)
		r = look_at_kind(look, before, WIRE_tenant_row, &to);
	fputs("],\"gone\":[", change);
	to.between = "";
	if (r == 0)
		write_gone(before, &to);
	fputc(']', change);
	write_whole(change, "meted", before->meted, look->meted, any);
	write_whole(change, "outside", before->outside, look->outside, any);
	if (news_write_any(change, news))
		*any = true;
	fputc('}', change);
	return r;
}

int crowd_look_at(struct crowd_look *ret_look, struct crowd_look *before, const struct sight *sight,
		  const struct looks *looks, FILE *change, bool *ret_any)
{
	struct crowd_look look = {.happened = looks->happened};
	const struct news news = {.host = looks->host,
				  .all = sight_all(sight),
				  .told = sight->rights != NULL,
				  .uid = sight->uid,
				  .rows = &look.rows,
				  .before = &before->rows,
				  .after = before->happened,
				  .upto = look.happened};
	int r = sight_look(sight, &looks->rows, &look.rows);

	if (r < 0)
		return r;
	forget_ages(&look.rows);
	*ret_any = false;
	look.text = calloc(look.rows.count + 1, sizeof(look.text[0]));
	look.meted = meted_of(&look.rows);
	look.outside = outside_of(&look.rows);
	r = look.text && look.meted && look.outside ? compare(&look, before, &news, change, ret_any)
						    : -ENOMEM;
	look.rows.board = NULL; /* which is of now; the texts have it */
	if (r < 0)
		crowd_look_free(&look);
	else
		*ret_look = look;
	return r;
}
