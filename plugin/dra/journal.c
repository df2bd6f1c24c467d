/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/dra/journal.h"

#include <dirent.h>
#include <limits.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/place.h"

enum { RECORD_MAX = 256 << 10 };

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

static void path_of(const struct journal *journal, const char *uid, char ret_path[PATH_MAX])
{
	snprintf(ret_path, PATH_MAX, "%s/%s", journal->folder, uid);
}

int journal_write(struct journal *journal, struct journal_claim *entry, const struct host *host,
		  struct fault *why)
{
	owned(free) char *text = journal_describe(entry, journal->boot, host);
	char path[PATH_MAX];
	int r;

	if (!text)
		return fault_set(why, -ENOMEM, "out of memory");
	path_of(journal, entry->claim->uid, path);
	r = file_replace_unsynced(path, text, strlen(text), 0600);
	if (r < 0)
		return fault_set(why, r, "%s: %s", path, strerror(-r));
	if (list_linked(&entry->link))
		return 0;
	list_append(&journal->all, &entry->link);
	journal->count++;
	return 0;
}

int journal_drop(struct journal *journal, struct journal_claim *entry, struct fault *why)
{
	char path[PATH_MAX];

	path_of(journal, entry->claim->uid, path);
	if (unlink(path) != 0 && errno != ENOENT)
		return fault_set(why, -errno, "%s: %s", path, strerror(errno));
	if (list_linked(&entry->link))
		journal->count--;
	journal_free(entry);
	return 0;
}

static int read_one(struct journal *journal, const char *name, const struct host *host)
{
	owned(free) char *text = NULL;
	struct journal_claim *entry = NULL;
	char path[PATH_MAX], boot[40];
	size_t size;
	int r;

	path_of(journal, name, path);
	r = file_slurp(path, RECORD_MAX, &text, &size);
	if (r == 0)
		r = journal_parse(name, text, size, host, boot, &entry);
	if (r < 0 || !entry)
		return r;
	/* Its containers ended with that boot; the kubelet prepares again what starts now. */
	if (*journal->boot && strcmp(boot, journal->boot) != 0)
		entry->phase = JOURNAL_ENDING;
	list_append(&journal->all, &entry->link);
	journal->count++;
	return 0;
}

/* A record that cannot be read now (no memory, no descriptors) is left where it is. */
static void read_file(struct journal *journal, const char *name, const struct host *host)
{
	char path[PATH_MAX];
	int r = strlen(name) < CLAIM_UID ? read_one(journal, name, host) : -EINVAL;

	if (r == 0)
		return;
	log_warning("claim.lost", "file=%s reason=%s", log_text(name).text,
		    log_text(strerror(-r)).text);
	path_of(journal, name, path);
	if (r == -EINVAL || r == -EFBIG)
		unlink(path);
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
	struct dirent *entry;
	DIR *files;
	int r;

	*journal = (struct journal){.folder = strdup(folder)};
	list_init(&journal->all);
	if (!journal->folder)
		return fault_set(why, -ENOMEM, "out of memory");
	read_boot(journal);
	r = place_make(folder, PLACE_PRIVATE, why);
	if (r < 0)
		return r;
	files = opendir(folder);
	if (!files)
		return fault_set(why, -errno, "%s: %s", folder, strerror(errno));
	while ((entry = readdir(files)))
		if (entry->d_name[0] != '.')
			read_file(journal, entry->d_name, host);
	closedir(files);
	return 0;
}

void journal_close(struct journal *journal)
{
	if (!journal->all.next)
		return;
	list_for_each(link, &journal->all)
		journal_free(list_entry(link, struct journal_claim, link));
	free(take(journal->folder));
}
