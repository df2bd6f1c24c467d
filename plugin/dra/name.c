/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's name, `gpu.DOMAIN`. The kubelet knows a prepared claim by it, and asks nobody else
 * to unprepare that one; kube-scheduler allocates a device by it, and nobody else can prepare that.
 * So a driver whose domain has changed keeps its former name until no claim has a device of that
 * name (former.c): a pod would wait to start, or be deleted, for ever otherwise.
 *
 * After a restart of the machine nothing is prepared, but the pods are still there. So the name
 * also stands in a file of the kubelet's folder, which outlives that.
 */
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/words.h"
#include "plugin/dra/inside.h"

struct name {
	char driver[80], kind[80];
};

/* What the kind of a claim's CDI file says. NULL: there is no claim from under another name. */
static const char *find_former(const struct dra *dra, const char *kind)
{
	list_for_each(link, (struct list *)&dra->journal.all)
	{
		const struct journal_claim *entry = list_entry(link, struct journal_claim, link);

		if (strcmp(entry->kind, kind) != 0)
			return entry->kind;
	}
	return NULL;
}

static void path_of(const struct dra *dra, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/plugins/mete-driver", dra->plugin->config->kubelet_folder);
}

bool name_is_driver(const char *name)
{
	return strncmp(name, "gpu.", strlen("gpu.")) == 0 && strlen(name) <= CONFIG_NAME_MAX &&
	       words_is_subdomain(name);
}

/* As the driver was called that had sockets last. False: nobody says so. */
static bool read_noted(const struct dra *dra, struct name *name)
{
	owned(free) char *text = NULL;
	char path[PATH_MAX];
	size_t size;

	path_of(dra, path);
	if (file_slurp(path, 200, &text, &size) < 0)
		return false;
	text[strcspn(text, "\n")] = '\0';
	if (!name_is_driver(text))
		return false;
	snprintf(name->driver, sizeof(name->driver), "%s", text);
	snprintf(name->kind, sizeof(name->kind), "%s/claim", text + strlen("gpu."));
	return true;
}

/* False: it cannot be written, on a disk that is full, say. It is tried again at the next look. */
static bool note(struct dra *dra, const char *driver)
{
	char path[PATH_MAX], line[90];
	int r;

	if (strcmp(dra->noted, driver) == 0)
		return true;
	path_of(dra, path);
	snprintf(line, sizeof(line), "%s\n", driver);
	r = file_replace(path, line, strlen(line), 0644);
	if (r == 0)
		snprintf(dra->noted, sizeof(dra->noted), "%s", driver);
	else if (!dra->unnoted)
		log_warning("dra.name_unnoted", "driver=%s path=%s reason=%s", driver, path,
			    log_text(strerror(-r)).text);
	dra->unnoted = r < 0;
	return r == 0;
}

void name_note(struct dra *dra)
{
	(void)note(dra, dra->driver);
}

static int find_own(const struct dra *dra, struct name *ret_name, struct fault *why)
{
	const struct config *config = dra->plugin->config;
	int r = registration_name(config, ret_name->driver, why);

	if (r == 0)
		snprintf(ret_name->kind, sizeof(ret_name->kind), "%s/claim", config->domain);
	return r;
}

static void put(struct dra *dra, const struct name *name)
{
	snprintf(dra->driver, sizeof(dra->driver), "%s", name->driver);
	snprintf(dra->kind, sizeof(dra->kind), "%s", name->kind);
}

int name_begin(struct dra *dra, struct fault *why)
{
	struct name name;
	int r = find_own(dra, &name, why);

	if (r < 0)
		return r;
	put(dra, &name);
	slices_pool_name(dra->plugin->node, dra->pool);
	return 0;
}

void name_keep(struct dra *dra)
{
	const char *former = find_former(dra, dra->kind);
	struct name name;

	if (former) {
		snprintf(name.kind, sizeof(name.kind), "%s", former);
		snprintf(name.driver, sizeof(name.driver), "gpu.%.*s", (int)strcspn(former, "/"),
			 former);
	} else if (!read_noted(dra, &name)) {
		return;
	}
	if (strcmp(name.driver, dra->driver) == 0)
		return;
	log_warning("dra.name_kept",
		    "driver=%s reason=\"claims may have devices of this name: the driver is "
		    "called %s when they have ended\"",
		    name.driver, dra->driver);
	put(dra, &name);
	/* All that it still does is for claims that are there. */
	dra->withdrawn = true;
}

/* As the configuration says, from now on. */
void name_change(struct dra *dra)
{
	struct name name;
	struct fault why;

	/* A note of the former name would bring that back after a restart of the machine, when all
	 * claims are of the new one. */
	if (dra->finishing || find_own(dra, &name, &why) < 0 || !note(dra, name.driver))
		return;
	log_info("dra.renamed", "driver=%s former=%s", name.driver, dra->driver);
	register_close(dra);
	publish_close(take(dra->publish));
	put(dra, &name);
	former_forget(dra);
	if (dra->plugin->api && publish_open(dra, &dra->publish, &why) < 0)
		log_warning("slices.unwritten", "reason=%s", log_text(why.text).text);
	register_open(dra);
}

void name_follow(struct dra *dra)
{
	struct name name;
	struct fault why;

	if (!dra->plugin->config->dra || dra->finishing || find_own(dra, &name, &why) < 0)
		return;
	if (strcmp(name.driver, dra->driver) != 0)
		former_look(dra);
	if (dra->plugin->api && !dra->publish && publish_open(dra, &dra->publish, &why) < 0)
		log_warning("slices.unwritten", "reason=%s", log_text(why.text).text);
}
