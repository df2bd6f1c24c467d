/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/dra/journal.h"

#include <limits.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/records.h"
#include "plugin/config/portion.h"

struct journal_claim *journal_find(const struct journal *journal, const char *uid)
{
	list_for_each(link, (struct list *)&journal->all)
	{
		struct journal_claim *entry = list_entry(link, struct journal_claim, link);

		if (strcmp(entry->claim->uid, uid) == 0)
			return entry;
	}
	return NULL;
}

struct journal_claim *journal_before(const struct journal *journal,
				     const struct journal_claim *entry)
{
	list_for_each(link, (struct list *)&journal->all)
	{
		struct journal_claim *other = list_entry(link, struct journal_claim, link);

		if (other == entry)
			break;
		if (other->phase == JOURNAL_DONE && other->tenant == entry->tenant)
			return other;
	}
	return NULL;
}

bool journal_is_joint(const struct journal *journal, const struct journal_claim *entry)
{
	list_for_each(link, (struct list *)&journal->all)
	{
		const struct journal_claim *other = list_entry(link, struct journal_claim, link);

		if (other != entry && other->tenant == entry->tenant)
			return true;
	}
	return false;
}

int journal_take(struct journal_claim *entry)
{
	portion_texts_free(entry->in_force);
	for (size_t i = 0; i < SHARE_FIELDS; i++) {
		const char *text = entry->claim->texts[i];

		entry->in_force[i] = text ? strdup(text) : NULL;
		if (text && !entry->in_force[i])
			return -ENOMEM;
	}
	for (uint32_t i = 0; i < entry->claim->results; i++)
		if (!entry->ready[i].since)
			entry->ready[i].since = time(NULL);
	return 0;
}

void journal_add(struct journal *journal, struct journal_claim *entry)
{
	list_append(&journal->all, &entry->link);
	journal->count++;
}

static bool has_line(const char *lines, const char *line)
{
	const char *at = lines ? strstr(lines, line) : NULL;

	while (at && at != lines && at[-1] != '\n')
		at = strstr(at + 1, line);
	return at;
}

/* A dot in front: it is no record. */
#define ANNOUNCED ".announced"

int journal_announce(struct journal *journal, const char *kind, const char *cdi_folder,
		     struct fault *why)
{
	owned(free) char *line = NULL, *lines = NULL;
	int r;

	if (asprintf(&line, "%s %s\n", kind, cdi_folder) < 0)
		line = NULL;
	if (line && has_line(journal->announced, line))
		return 0;
	if (!line ||
	    asprintf(&lines, "%s%s", journal->announced ? journal->announced : "", line) < 0)
		lines = NULL;
	r = records_write_unsynced(journal->folder, ANNOUNCED, lines, why);
	if (r < 0)
		return r;
	free(journal->announced);
	journal->announced = take(lines);
	return 0;
}

void journal_each_announced(const struct journal *journal,
			    void (*seen)(void *owner, const char *kind, const char *cdi_folder),
			    void *owner)
{
	owned(free) char *lines = journal->announced ? strdup(journal->announced) : NULL;
	char *rest = lines, *line;

	while ((line = strsep(&rest, "\n"))) {
		char *folder = strchr(line, ' ');

		if (!folder)
			continue;
		*folder = '\0';
		seen(owner, line, folder + 1);
	}
}

int journal_write(struct journal *journal, struct journal_claim *entry, const struct host *host,
		  struct fault *why)
{
	owned(free) char *text = journal_describe(entry, journal->boot, host);
	int r = records_write_unsynced(journal->folder, entry->claim->uid, text, why);

	if (r < 0)
		return r;
	entry->recorded = true;
	if (!list_linked(&entry->link))
		journal_add(journal, entry);
	return 0;
}

int journal_drop(struct journal *journal, struct journal_claim *entry, struct fault *why)
{
	int r = records_remove(journal->folder, entry->claim->uid, why);

	if (r < 0)
		return r;
	if (list_linked(&entry->link))
		journal->count--;
	journal_free(entry);
	return 0;
}

struct reading {
	struct journal *journal;
	const struct host *host;
};

static bool is_name(const char *name)
{
	return strlen(name) < CLAIM_UID;
}

static int read_one(void *owner, const char *name, const char *text, size_t size)
{
	struct reading *reading = owner;
	struct journal *journal = reading->journal;
	struct journal_claim *entry = NULL;
	char boot[40];
	int r = journal_parse(name, text, size, reading->host, boot, &entry);

	if (r < 0 || !entry)
		return r;
	/* Its containers ended with that boot; the kubelet prepares again what starts now. */
	if (*journal->boot && strcmp(boot, journal->boot) != 0)
		entry->phase = JOURNAL_ENDING;
	entry->recorded = true;
	journal_add(journal, entry);
	return 0;
}

static void read_announced(struct journal *journal)
{
	char path[PATH_MAX];
	size_t size;

	snprintf(path, sizeof(path), "%s/" ANNOUNCED, journal->folder);
	/* Where it cannot be read now, only the usual place is looked through. */
	if (file_slurp(path, 64 << 10, &journal->announced, &size) < 0)
		journal->announced = NULL;
}

static void read_boot(struct journal *journal)
{
	owned(free) char *text = NULL;
	size_t size;

	if (file_slurp("/proc/sys/kernel/random/boot_id", 64, &text, &size) == 0)
		snprintf(journal->boot, sizeof(journal->boot), "%.*s", (int)strcspn(text, "\n"),
			 text);
}

int journal_open(struct journal *journal, const char *folder, const struct host *host,
		 struct fault *why)
{
	static const struct records_reader reader = {is_name, read_one, "claim.lost"};
	struct reading reading = {.journal = journal, .host = host};

	*journal = (struct journal){.folder = strdup(folder)};
	list_init(&journal->all);
	if (!journal->folder)
		return fault_set(why, -ENOMEM, "out of memory");
	read_boot(journal);
	read_announced(journal);
	return records_open(folder, &reader, &reading, why);
}

void journal_close(struct journal *journal)
{
	if (!journal->all.next)
		return;
	list_for_each(link, &journal->all)
		journal_free(list_entry(link, struct journal_claim, link));
	free(take(journal->announced));
	free(take(journal->folder));
}
