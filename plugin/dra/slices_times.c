/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kube/json.h"
#include "plugin/dra/slices.h"

enum { KEY = 400 };

static const char *or_none(const char *text)
{
	return text ? text : "";
}

/* False: what somebody has written into our slice is longer than anything of ours. */
static bool name_taint(const char *device, const cJSON *taint, char key[KEY])
{
	return snprintf(key, KEY, "%s|%s|%s|%s", device, or_none(json_text(taint, "key")),
			or_none(json_text(taint, "value")),
			or_none(json_text(taint, "effect"))) < KEY;
}

/* The times that are read, and those that are written. */
struct times {
	const cJSON *from;
	cJSON *to;
};

static void each_taint(const cJSON *slice, struct times *times,
		       void (*each)(struct times *times, const char *key, cJSON *taint))
{
	const cJSON *spec = cJSON_GetObjectItemCaseSensitive(slice, "spec"), *device;

	cJSON_ArrayForEach(device, cJSON_GetObjectItemCaseSensitive(spec, "devices"))
	{
		const char *name = json_text(device, "name");
		cJSON *taint;
		char key[KEY];

		cJSON_ArrayForEach(taint, cJSON_GetObjectItemCaseSensitive(device, "taints"))
		{
			if (name && name_taint(name, taint, key))
				each(times, key, taint);
		}
	}
}

/* Without memory a time begins anew. */
static void set(cJSON *times, const char *key, const char *added)
{
	if (!added)
		return;
	cJSON_DeleteItemFromObjectCaseSensitive(times, key);
	cJSON_AddStringToObject(times, key, added);
}

static void note(struct times *times, const char *key, cJSON *taint)
{
	set(times->to, key, json_text(taint, SLICES_ADDED));
}

void slices_note_times(cJSON *times, const cJSON *found)
{
	each_taint(found, &(struct times){.to = times}, note);
}

static void put(struct times *times, const char *key, cJSON *taint)
{
	set(taint, SLICES_ADDED, json_text(times->from, key));
}

void slices_put_times(const cJSON *times, cJSON *wanted)
{
	each_taint(wanted, &(struct times){.from = times}, put);
}

static void keep(struct times *times, const char *key, unused cJSON *taint)
{
	set(times->to, key, json_text(times->from, key));
}

void slices_forget_times(cJSON **times, const cJSON *wanted)
{
	struct times kept = {.from = *times};
	const cJSON *slice;

	if (!*times || !(*times)->child)
		return;
	kept.to = cJSON_CreateObject();
	if (!kept.to)
		return;
	cJSON_ArrayForEach(slice, wanted) each_taint(slice, &kept, keep);
	cJSON_Delete(*times);
	*times = kept.to;
}

/* Whether the taint of that key is one of the slice's devices'. */
static bool has_device(const cJSON *slice, const char *key)
{
	const cJSON *spec = cJSON_GetObjectItemCaseSensitive(slice, "spec"), *device;
	const char *bar = strchr(key, '|');

	cJSON_ArrayForEach(device, cJSON_GetObjectItemCaseSensitive(spec, "devices"))
	{
		const char *name = or_none(json_text(device, "name"));

		if (bar && strlen(name) == (size_t)(bar - key) &&
		    strncmp(name, key, (size_t)(bar - key)) == 0)
			return true;
	}
	return false;
}

void slices_drop_times(cJSON *times, const cJSON *written)
{
	struct times kept = {.from = times, .to = cJSON_CreateObject()};
	cJSON *next;

	if (!kept.to)
		return;
	each_taint(written, &kept, keep);
	for (cJSON *at = times ? times->child : NULL; at; at = next) {
		next = at->next;
		if (has_device(written, at->string) &&
		    !cJSON_GetObjectItemCaseSensitive(kept.to, at->string))
			cJSON_Delete(cJSON_DetachItemViaPointer(times, at));
	}
	cJSON_Delete(kept.to);
}
