/* SPDX-License-Identifier: Apache-2.0 */
#include "node/state/past.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/macros.h"
#include "base/record.h"

enum { SUBJECT_MOST = 400 };

/* Each kind of record: its verb, what it is about, the fields that identify that, and whether it
 * revokes an earlier record. */
static const struct kind {
	const char *verb, *about, *fields[3];
	int takes_back;
} kinds[] = {
	{"tenant", "tenant", {"id"}, 0},
	{"end", "end", {"id"}, 0},
	{"guest", "guest", {"tenant", "pid", "started"}, 0},
	{"left", "guest", {"tenant", "pid", "started"}, 1},
	{"context", "context", {"tenant", "pid", "device"}, 0},
	{"held", "held", {"tenant", "device"}, 0},
	{"told", "told", {"tenant", "device"}, 0},
	{"owed", "owed", {"tenant", "device"}, 0},
	{"over", "told", {"tenant", "device"}, 1},
	{"reserved", "device", {"device"}, 0},
	{"free", "device", {"device"}, 1},
	{"cordoned", "cordon", {"device"}, 0},
	{"uncordoned", "cordon", {"device"}, 1},
};

static const struct kind *kind_of(const char *record)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (record_is(record, kinds[i].verb))
			return &kinds[i];
	}
	return NULL;
}

/* Returns false if a field is missing or too long. */
static int subject_of(const struct kind *kind, const char *record, char *out)
{
	size_t n = (size_t)snprintf(out, SUBJECT_MOST, "%s", kind->about);

	for (size_t i = 0; i < ARRAY_SIZE(kind->fields) && kind->fields[i]; i++) {
		out[n++] = ' ';
		if (!record_get(record, kind->fields[i], out + n, SUBJECT_MOST - n - 1))
			return 0;
		n += strlen(out + n);
	}
	return 1;
}

/* The chain of records that may have this subject. */
static uint32_t *chain_of(const struct past *past, const char *subject)
{
	return &past->first[hash_text(HASH_BEGIN, subject) & (past->hashes - 1)];
}

static struct past_record *find(const struct past *past, const char *subject)
{
	uint32_t at = past->hashes ? *chain_of(past, subject) : 0;

	while (at && strcmp(past->records[at - 1].subject, subject) != 0)
		at = past->records[at - 1].next;
	return at ? &past->records[at - 1] : NULL;
}

static void chain(struct past *past, uint32_t index)
{
	uint32_t *first = chain_of(past, past->records[index].subject);

	past->records[index].next = *first;
	*first = index + 1;
}

/* Doubles the room for records and the number of hashes. */
static int grow(struct past *past)
{
	size_t room = past->room ? 2 * past->room : 64;
	struct past_record *records = realloc(past->records, room * sizeof(*records));
	uint32_t *first;

	if (!records)
		return -1;
	past->records = records;
	first = calloc(room, sizeof(*first));
	if (!first)
		return -1;
	free(past->first);
	past->first = first;
	past->hashes = (uint32_t)room;
	past->room = room;
	for (uint32_t i = 0; i < past->count; i++)
		chain(past, i);
	return 0;
}

static struct past_record *make(struct past *past, const char *subject)
{
	struct past_record *it;

	if (past->count == past->room && grow(past) < 0)
		return NULL;
	it = &past->records[past->count];
	*it = (struct past_record){.subject = strdup(subject)};
	if (!it->subject)
		return NULL;
	chain(past, (uint32_t)past->count++);
	return it;
}

void past_add(struct past *past, const char *record)
{
	uint64_t id = record_get_number(record, "id");
	const struct kind *kind = kind_of(record);
	char subject[SUBJECT_MOST];
	struct past_record *it;

	if ((record_is(record, "tenant") || record_is(record, "last")) && id > past->last_tenant)
		past->last_tenant = id;
	if (!kind || !subject_of(kind, record, subject))
		return;
	it = find(past, subject);
	if (!it && !kind->takes_back)
		it = make(past, subject);
	if (!it)
		return;
	free(it->text);
	it->text = kind->takes_back ? NULL : strdup(record);
	it->order = ++past->order;
}

void past_settle(struct past *past)
{
	for (size_t i = 0; i < past->count; i++) {
		struct past_record *it = &past->records[i];
		bool is_tenant = it->text && record_is(it->text, "tenant");
		char subject[64];
		const struct past_record *end;

		if (!it->text)
			continue;
		snprintf(subject, sizeof(subject), "end %" PRIu64,
			 record_get_number(it->text, is_tenant ? "id" : "tenant"));
		end = find(past, subject);
		if (end && end->order > it->order) {
			free(it->text);
			it->text = NULL;
		}
	}
	/* The "end" records were needed only for this. */
	for (size_t i = 0; i < past->count; i++) {
		struct past_record *it = &past->records[i];

		if (it->text && record_is(it->text, "end"))
			free(take(it->text));
	}
}

void past_done(struct past *past)
{
	for (size_t i = 0; i < past->count; i++) {
		free(past->records[i].subject);
		free(past->records[i].text);
	}
	free(past->records);
	free(past->first);
	*past = (struct past){0};
}
