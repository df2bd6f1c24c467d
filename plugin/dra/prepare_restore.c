/* SPDX-License-Identifier: Apache-2.0 */
/* What an earlier meted began and did not finish, and what others have taken away. */
#include <dirent.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "plugin/dra/inside.h"
#include "plugin/slots.h"

static void restore(struct dra *dra, struct journal_claim *entry)
{
	struct fault why;
	int r;

	if (entry->phase != JOURNAL_DONE)
		r = prepare_undo(dra, entry, &why);
	else
		/* It is as it was where a device is missing, or its tenant cannot be joined now. */
		r = *entry->folder && !entry->absent && dra->plugin->edits
			    ? prepare_write_cdi(dra, entry, &why)
			    : 0;
	if (r < 0)
		log_warning("claim.unrestored", "reason=%s", log_text(why.text).text);
}

/* A container that is started again would be refused by its runtime for ever: the kubelet does not
 * ask again for a claim that it knows to be prepared. */
int prepare_mend(struct dra *dra, const struct journal_claim *entry, struct fault *why)
{
	const struct claim *claim = entry->claim;
	int r;

	if (!prepare_is_done(entry) || !dra->plugin->edits ||
	    inject_has_cdi(entry->cdi_folder, entry->kind, claim->uid))
		return 0;
	r = prepare_write_cdi(dra, entry, why);
	if (r == 0)
		log_warning("claim.rewritten",
			    "claim=%s/%s uid=%s reason=\"its CDI file was gone\"", claim->namespace,
			    claim->name, claim->uid);
	return r;
}

/* A full disk stays full for many looks: the same sentence is logged once. */
static void tell_unwritten(struct dra *dra, const char *uid, const char *reason)
{
	owned(free) char *sentence = NULL;

	if (asprintf(&sentence, "uid=%s reason=%s", uid, log_text(reason).text) < 0)
		sentence = NULL;
	if (!sentence || text_same(sentence, dra->unwritten))
		return;
	log_warning("claim.unwritten", "%s", sentence);
	free(dra->unwritten);
	dra->unwritten = take(sentence);
}

/* What keeps one from being written keeps the others, too. */
void prepare_mend_all(struct dra *dra)
{
	struct fault why;

	list_for_each(link, &dra->journal.all)
	{
		const struct journal_claim *entry = list_entry(link, struct journal_claim, link);

		if (prepare_mend(dra, entry, &why) == 0)
			continue;
		tell_unwritten(dra, entry->claim->uid, why.text);
		return;
	}
	free(take(dra->unwritten));
}

/* "mete.dev-claim_<UID>.json", and what a killed writer left beside it. */
static bool read_name(const char *kind, const char *file, char ret_uid[CLAIM_UID])
{
	size_t vendor = strcspn(kind, "/"), length;
	char prefix[100];

	if (!kind[vendor])
		return false;
	snprintf(prefix, sizeof(prefix), "%.*s-%s_", (int)vendor, kind, kind + vendor + 1);
	length = strlen(prefix);
	if (strncmp(file, prefix, length) != 0 || strcspn(file + length, ".") >= CLAIM_UID ||
	    strncmp(file + length + strcspn(file + length, "."), ".json", 5) != 0)
		return false;
	snprintf(ret_uid, CLAIM_UID, "%.*s", (int)strcspn(file + length, "."), file + length);
	return true;
}

/* Does it lead to a tenant of ours? Other metes may write beside us. An empty one is what a crash
 * of the machine left: files are not synced. */
static bool is_ours(const struct dra *dra, const char *path)
{
	char ours[PLUGIN_PATH], tenants[PLUGIN_PATH];
	owned(free) char *text = NULL;
	size_t size;

	snprintf(tenants, sizeof(tenants), "%.400s/tenants/", dra->plugin->host->place);
	slots_on_host(dra->plugin, tenants, ours);
	return file_slurp(path, 1 << 20, &text, &size) == 0 && (!size || strstr(text, ours));
}

static void sweep(const struct dra *dra, const char *kind, const char *folder)
{
	char path[PATH_MAX], uid[CLAIM_UID];
	DIR *files = opendir(folder);
	const struct dirent *file;

	while (files && (file = readdir(files)))
		if (read_name(kind, file->d_name, uid) && !journal_find(&dra->journal, uid) &&
		    snprintf(path, sizeof(path), "%s/%s", folder, file->d_name) <
			    (int)sizeof(path) &&
		    is_ours(dra, path))
			unlink(path);
	if (files)
		closedir(files);
}

static void sweep_announced(void *owner, const char *kind, const char *folder)
{
	sweep(owner, kind, folder);
}

void prepare_restore(struct dra *dra)
{
	list_for_each(link, &dra->journal.all)
		restore(dra, list_entry(link, struct journal_claim, link));
	journal_each_announced(&dra->journal, sweep_announced, dra);
	/* Of a meted that announced nothing. */
	sweep(dra, dra->kind, dra->plugin->config->cdi_folder);
}
