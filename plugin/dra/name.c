/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's name, `gpu.DOMAIN`. The kubelet knows a prepared claim by it, and asks nobody else
 * to unprepare that one. So a driver whose domain has changed keeps its former name until the
 * claims that were prepared under it have ended: a pod would be deleted for ever otherwise.
 */
#include <string.h>

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

static void take_former(const struct dra *dra, struct name *name)
{
	const char *former = find_former(dra, name->kind);

	if (!former)
		return;
	snprintf(name->kind, sizeof(name->kind), "%s", former);
	snprintf(name->driver, sizeof(name->driver), "gpu.%.*s", (int)strcspn(former, "/"), former);
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
	struct name name;

	memcpy(name.driver, dra->driver, sizeof(name.driver));
	memcpy(name.kind, dra->kind, sizeof(name.kind));
	take_former(dra, &name);
	if (strcmp(name.driver, dra->driver) == 0)
		return;
	log_warning("dra.name_kept",
		    "driver=%s reason=\"claims that are prepared have this name: the driver is "
		    "called %s when they have ended\"",
		    name.driver, dra->driver);
	put(dra, &name);
}

/* Calls that wait are answered first, under the former name. */
void name_follow(struct dra *dra)
{
	struct name name;
	struct fault why;

	if (!dra->plugin->config->dra || dra->finishing || !list_empty(&dra->asking) ||
	    find_own(dra, &name, &why) < 0)
		return;
	take_former(dra, &name);
	if (strcmp(name.driver, dra->driver) != 0) {
		log_info("dra.renamed", "driver=%s former=%s", name.driver, dra->driver);
		register_close(dra);
		publish_close(take(dra->publish));
		put(dra, &name);
	}
	if (dra->plugin->api && !dra->publish && publish_open(dra, &dra->publish, &why) < 0)
		log_warning("slices.unwritten", "reason=%s", log_text(why.text).text);
}
