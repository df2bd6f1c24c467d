/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/dra/places.h"

#include <string.h>

#include "kube/json.h"
#include "plugin/dra/inside.h"

/* Of a claim; who only looks has nothing made. */
static bool has(const struct claim *claim, const char *device)
{
	for (uint32_t i = 0; !claim->is_admin && i < claim->results; i++)
		if (strcmp(claim->result[i].device, device) == 0)
			return true;
	return false;
}

/* Then nobody removes the part either. */
static bool is_claimed(const struct dra *dra, const char *device)
{
	list_for_each(link, (struct list *)&dra->journal.all)
	{
		const struct journal_claim *entry = list_entry(link, struct journal_claim, link);

		if (prepare_is_done(entry) && has(entry->claim, device))
			return true;
	}
	return false;
}

bool places_goes(const struct dra *dra, uint32_t device)
{
	const struct parts *parts = dra->plugin->parts;
	const char *place = parts_is_on(parts) ? NULL : parts_place_of(parts, device);
	char name[SLICES_NAME];

	if (!place)
		return false;
	slices_device_name(place, name);
	return !is_claimed(dra, name);
}

void dra_each_place(const struct dra *dra, void (*each)(void *owner, const char *device),
		    void *owner)
{
	if (!dra)
		return;
	list_for_each(link, (struct list *)&dra->journal.all)
	{
		const struct claim *claim = list_entry(link, struct journal_claim, link)->claim;

		for (uint32_t i = 0; !claim->is_admin && i < claim->results; i++)
			each(owner, claim->result[i].device);
	}
	serve_each_place(dra, each, owner);
}

struct search {
	const struct dra *dra;
	const char *device; /* as the claim names it */
	struct parts_ask *ask;
};

static void look(void *owner, const struct parts_place *place)
{
	const struct search *s = owner;
	struct parts_ask *ask = s->ask;
	char name[SLICES_NAME];

	slices_device_name(place->id, name);
	if (strcmp(name, s->device) != 0 || ask->count == PARTS_WANTS ||
	    (place->device >= 0 && is_claimed(s->dra, name)))
		return;
	for (uint32_t i = 0; i < ask->count; i++)
		if (strcmp(ask->id[i], place->id) == 0)
			return;
	snprintf(ask->id[ask->count++], IDS_BYTES, "%.63s", place->id);
}

static bool is_ours(const struct dra *dra, const cJSON *result)
{
	const char *driver = json_text(result, "driver"), *pool = json_text(result, "pool");

	return driver && strcmp(driver, dra->driver) == 0 && pool && strcmp(pool, dra->pool) == 0 &&
	       !cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(result, "adminAccess"));
}

void places_find(const struct dra *dra, const cJSON *object, const char *uid, struct parts_ask *ask)
{
	const struct plugin *p = dra->plugin;
	const cJSON *at = cJSON_GetObjectItemCaseSensitive(object, "status"), *result;
	struct fault why;

	ask->count = 0;
	/* A device has one owner. */
	if (!p->config->dra || p->enrol.rival || claim_check(object, uid, &why) < 0)
		return;
	at = cJSON_GetObjectItemCaseSensitive(at, "allocation");
	at = cJSON_GetObjectItemCaseSensitive(at, "devices");
	cJSON_ArrayForEach(result, cJSON_GetObjectItemCaseSensitive(at, "results"))
	{
		struct search s = {.dra = dra, .device = json_text(result, "device"), .ask = ask};

		if (s.device && is_ours(dra, result))
			parts_each_place(p->parts, look, &s);
	}
}
