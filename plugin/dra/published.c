/* SPDX-License-Identifier: Apache-2.0 */
/* The slices that the API server has of us. */
#include <inttypes.h>
#include <string.h>

#include "kube/json.h"
#include "plugin/dra/publish.h"

enum { UNKEPT_S = 3600 };

static const char *name_of(const cJSON *object)
{
	return json_text(cJSON_GetObjectItemCaseSensitive(object, "metadata"), "name");
}

static struct publish_known *find(const struct publish *u, const char *name)
{
	list_for_each(link, (struct list *)&u->known)
	{
		struct publish_known *known = list_entry(link, struct publish_known, link);

		if (name && strcmp(known->name, name) == 0)
			return known;
	}
	return NULL;
}

struct publish_known *known_of(const struct publish *u, const cJSON *wanted)
{
	return find(u, name_of(wanted));
}

static const cJSON *find_wanted(const cJSON *wanted, const char *name)
{
	const cJSON *slice;

	cJSON_ArrayForEach(slice, wanted)
	{
		if (strcmp(name_of(slice), name) == 0)
			return slice;
	}
	return NULL;
}

const char *known_extra(const struct publish *u, const cJSON *wanted)
{
	list_for_each(link, (struct list *)&u->known)
	{
		const struct publish_known *known = list_entry(link, struct publish_known, link);

		if (!find_wanted(wanted, known->name))
			return known->name;
	}
	return NULL;
}

/* After a while it is written again: the server may have learnt to keep it. */
bool known_is(const struct publish *u, const struct publish_known *known, const cJSON *wanted)
{
	if (slices_same(wanted, known->object))
		return true;
	return known->sent && loop_now_ns() - u->unkept_ns < UNKEPT_S * 1000000000ull &&
	       slices_same(wanted, known->sent) && slices_same(known->kept, known->object);
}

bool known_agrees(const struct publish *u, const cJSON *wanted)
{
	int64_t generation = known_newest(u);
	const cJSON *slice;

	cJSON_ArrayForEach(slice, wanted)
	{
		const struct publish_known *known = known_of(u, slice);

		if (!known || known->generation != generation || !known_is(u, known, slice))
			return false;
	}
	return !known_extra(u, wanted);
}

int64_t known_newest(const struct publish *u)
{
	/* What was deleted a moment ago is still in somebody's cache. */
	int64_t newest = u->generation;

	list_for_each(link, (struct list *)&u->known)
	{
		const struct publish_known *known = list_entry(link, struct publish_known, link);

		if (known->generation > newest)
			newest = known->generation;
	}
	return newest;
}

static void forget_kept(struct publish_known *known)
{
	cJSON_Delete(take(known->sent));
	cJSON_Delete(take(known->kept));
}

static void drop(struct publish_known *known)
{
	list_remove(&known->link);
	forget_kept(known);
	cJSON_Delete(known->object);
	free(known->name);
	free(known);
}

static uint64_t version_of(const cJSON *object)
{
	const char *text =
		json_text(cJSON_GetObjectItemCaseSensitive(object, "metadata"), "resourceVersion");

	return text ? strtoull(text, NULL, 10) : 0;
}

static int64_t generation_of(const cJSON *object)
{
	const cJSON *spec = cJSON_GetObjectItemCaseSensitive(object, "spec");
	const cJSON *pool = cJSON_GetObjectItemCaseSensitive(spec, "pool");
	const cJSON *number = cJSON_GetObjectItemCaseSensitive(pool, "generation");

	return cJSON_IsNumber(number) && number->valuedouble > 0 &&
			       number->valuedouble < (double)PUBLISH_GENERATIONS
		       ? (int64_t)number->valuedouble
		       : 0;
}

static struct publish_known *make(struct publish *u, const char *name)
{
	struct publish_known *known = calloc(1, sizeof(*known));

	if (!known)
		return NULL;
	known->name = strdup(name);
	if (!known->name) {
		free(known);
		return NULL;
	}
	list_append(&u->known, &known->link);
	return known;
}

void known_see(struct publish *u, const cJSON *object)
{
	const char *name = name_of(object);
	struct publish_known *known = find(u, name);
	cJSON *copy;

	if (!name)
		return;
	if (known && version_of(object) < known->version) {
		known->seen = true;
		return;
	}
	copy = cJSON_Duplicate(object, true);
	if (!known && copy)
		known = make(u, name);
	/* Without memory it stays unknown, and the next write is refused: it is tried again. */
	if (!known || !copy) {
		cJSON_Delete(copy);
		return;
	}
	slices_note_times(u->times, copy);
	cJSON_Delete(known->object);
	known->object = copy;
	known->version = version_of(object);
	known->generation = generation_of(object);
	known->seen = true;
}

void known_keep(struct publish *u, const cJSON *object)
{
	struct publish_known *known = find(u, u->writing);

	if (!known)
		return;
	forget_kept(known);
	if (!u->sent || slices_same(u->sent, object))
		return;
	known->kept = cJSON_Duplicate(object, true);
	/* Without memory it is written again. */
	if (known->kept)
		known->sent = take(u->sent);
	u->unkept_ns = loop_now_ns();
}

void known_gone(struct publish *u, const cJSON *object)
{
	const char *name = name_of(object);
	struct publish_known *known = find(u, name);

	/* Perhaps before the answer to the write that made it. */
	if (name && strcmp(name, u->writing) == 0)
		u->gone_version = version_of(object);
	if (known && version_of(object) >= known->version)
		drop(known);
}

void known_forget(struct publish *u, const char *name)
{
	struct publish_known *known = find(u, name);

	if (known)
		drop(known);
}

void known_wrote(struct publish *u, const cJSON *object)
{
	const char *kind = json_text(object, "kind");

	if (kind && strcmp(kind, "ResourceSlice") == 0 && !u->deleting &&
	    version_of(object) > u->gone_version)
		known_see(u, object);
	else
		known_forget(u, u->writing);
}

bool known_lost_fields(const cJSON *object)
{
	const cJSON *spec = cJSON_GetObjectItemCaseSensitive(object, "spec"), *device;

	cJSON_ArrayForEach(device, cJSON_GetObjectItemCaseSensitive(spec, "devices"))
	{
		if (!cJSON_IsTrue(
			    cJSON_GetObjectItemCaseSensitive(device, "allowMultipleAllocations")))
			return true;
	}
	return false;
}

void known_begin(struct publish *u)
{
	u->gone_version = 0;
	list_for_each(link, &u->known)
	{
		struct publish_known *known = list_entry(link, struct publish_known, link);

		known->seen = false;
		known->version = 0; /* it may be of another history: a cluster's backup */
	}
}

void known_end(struct publish *u)
{
	list_for_each(link, &u->known)
	{
		struct publish_known *known = list_entry(link, struct publish_known, link);

		if (!known->seen)
			drop(known);
	}
}

void known_free(struct publish *u)
{
	list_for_each(link, &u->known) drop(list_entry(link, struct publish_known, link));
}
