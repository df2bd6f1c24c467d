/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "plugin/kubelet/binding.h"

#include "kube/json.h"
#include "plugin/quantity.h"

enum { MILLI_ALL = 1000 };

void binding_free(struct binding *b)
{
	if (!b)
		return;
	list_remove(&b->link);
	for (size_t i = 0; i < ARRAY_SIZE(b->texts); i++)
		free(b->texts[i]);
	for (uint32_t i = 0; b->ids && i < b->count; i++)
		free(b->ids[i]);
	for (uint32_t i = 0; i < b->missings; i++)
		free(b->missing[i]);
	free(b->ids);
	free(b->resource);
	free(b->namespace);
	free(b->pod);
	free(b->uid);
	free(b->container);
	free(b->kind);
	free(b->cdi_folder);
	free(b->complaint);
	refusal_forget(&b->refusal);
	free(b);
}

int binding_make(const char *resource, const char *const *ids, size_t count,
		 struct binding **ret_binding)
{
	owned(binding_free) struct binding *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	b->ids = calloc(count + 1, sizeof(*b->ids));
	b->resource = strdup(resource);
	if (!b->ids || !b->resource)
		return -ENOMEM;
	ids_key(resource, ids, count, b->key);
	for (; b->count < count; b->count++) {
		b->ids[b->count] = strdup(ids[b->count]);
		if (!b->ids[b->count])
			return -ENOMEM;
	}
	*ret_binding = take(b);
	return 0;
}

int binding_place(const struct binding *binding, uint32_t device)
{
	for (uint32_t i = 0; i < binding->devices; i++)
		if (binding->device[i] == device)
			return (int)i;
	return -1;
}

/* As texts: numbers of JSON have 53 bits. */
static bool add_counted(cJSON *tree, const struct binding *b)
{
	cJSON *counted = cJSON_AddObjectToObject(tree, "counted");
	char bytes[24], milli[24];

	snprintf(bytes, sizeof(bytes), "%" PRIu64, b->counted_bytes);
	snprintf(milli, sizeof(milli), "%u", b->counted_milli);
	return counted && cJSON_AddStringToObject(counted, "memory", bytes) &&
	       cJSON_AddStringToObject(counted, "milli", milli);
}

static bool add_texts(cJSON *tree, const struct binding *b)
{
	cJSON *share = cJSON_AddObjectToObject(tree, "share");
	bool good = share && cJSON_AddStringToObject(tree, "resource", b->resource) &&
		    cJSON_AddStringToObject(tree, "namespace", b->namespace) &&
		    cJSON_AddStringToObject(tree, "pod", b->pod) &&
		    cJSON_AddStringToObject(tree, "uid", b->uid) &&
		    cJSON_AddStringToObject(tree, "container", b->container);

	if (good && b->kind)
		good = cJSON_AddStringToObject(tree, "kind", b->kind) &&
		       cJSON_AddStringToObject(tree, "cdi-folder", b->cdi_folder);
	if (good && b->counted)
		good = add_counted(tree, b);
	for (uint32_t i = 0; good && i < SHARE_FIELDS; i++)
		if (b->texts[i])
			good = cJSON_AddStringToObject(share, share_key(i), b->texts[i]);
	return good;
}

static bool add_lists(cJSON *tree, const struct binding *b, const struct host *host)
{
	cJSON *devices = cJSON_AddArrayToObject(tree, "devices");
	cJSON *ids = cJSON_AddArrayToObject(tree, "ids");
	bool good = devices && ids;

	for (uint32_t i = 0; good && i < b->devices; i++)
		good = cJSON_AddItemToArray(devices,
					    cJSON_CreateString(host->device[b->device[i]].uuid));
	for (uint32_t i = 0; good && i < b->missings; i++)
		good = cJSON_AddItemToArray(devices, cJSON_CreateString(b->missing[i]));
	for (uint32_t i = 0; good && i < b->count; i++)
		good = cJSON_AddItemToArray(ids, cJSON_CreateString(b->ids[i]));
	return good;
}

char *binding_describe(const struct binding *b, const struct host *host)
{
	owned(cJSON_Delete) cJSON *tree = cJSON_CreateObject();

	if (!tree || !cJSON_AddNumberToObject(tree, "tenant", b->tenant) ||
	    !cJSON_AddNumberToObject(tree, "parts", b->parts) ||
	    (b->changing && !cJSON_AddTrueToObject(tree, "changing")) ||
	    (b->is_static && !cJSON_AddTrueToObject(tree, "static")) ||
	    (b->exclusive && !cJSON_AddTrueToObject(tree, "exclusive")) || !add_texts(tree, b) ||
	    !add_lists(tree, b, host))
		return NULL;
	return cJSON_PrintUnformatted(tree);
}

static char *copy_of(const cJSON *tree, const char *key)
{
	const char *text = json_text(tree, key);

	return strdup(text ? text : "");
}

static uint32_t number_of(const cJSON *tree, const char *key)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(tree, key);

	return cJSON_IsNumber(item) && item->valuedouble > 0 && item->valuedouble < 1e9
		       ? (uint32_t)item->valuedouble
		       : 0;
}

static int read_counted(struct binding *b, const cJSON *tree)
{
	const cJSON *counted = cJSON_GetObjectItemCaseSensitive(tree, "counted");
	const char *bytes = json_text(counted, "memory"), *milli = json_text(counted, "milli");
	uint64_t value;

	if (!counted)
		return 0;
	if (!bytes || !milli || quantity_read(bytes, &b->counted_bytes) < 0 ||
	    quantity_read(milli, &value) < 0 || value > MILLI_ALL)
		return -EINVAL;
	b->counted_milli = (uint32_t)value;
	b->counted = true;
	return 0;
}

static int read_devices(struct binding *b, const cJSON *tree, const struct host *host)
{
	const cJSON *item;

	cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(tree, "devices"))
	{
		const char *uuid = cJSON_GetStringValue(item);
		int device = host_find(host, uuid);

		if (!uuid || b->devices + b->missings == HOST_DEVICES)
			return -EINVAL;
		if (device >= 0) {
			b->device[b->devices++] = (uint32_t)device;
			continue;
		}
		b->missing[b->missings] = strdup(uuid);
		if (!b->missing[b->missings])
			return -ENOMEM;
		b->missings++;
	}
	return 0;
}

static int read_rest(struct binding *b, const cJSON *tree, const struct host *host)
{
	const cJSON *share = cJSON_GetObjectItemCaseSensitive(tree, "share");
	int r;

	b->tenant = number_of(tree, "tenant");
	b->parts = number_of(tree, "parts");
	b->changing = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(tree, "changing"));
	b->is_static = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(tree, "static"));
	b->exclusive = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(tree, "exclusive"));
	b->namespace = copy_of(tree, "namespace");
	b->pod = copy_of(tree, "pod");
	b->uid = copy_of(tree, "uid");
	b->container = copy_of(tree, "container");
	for (uint32_t i = 0; i < SHARE_FIELDS; i++)
		if (cJSON_GetObjectItemCaseSensitive(share, share_key(i)))
			b->texts[i] = copy_of(share, share_key(i));
	r = read_counted(b, tree);
	if (r == 0)
		r = read_devices(b, tree, host);
	if (r < 0)
		return r;
	if (json_text(tree, "kind") && json_text(tree, "cdi-folder")) {
		b->kind = copy_of(tree, "kind");
		b->cdi_folder = copy_of(tree, "cdi-folder");
		if (!b->kind || !b->cdi_folder)
			return -ENOMEM;
	}
	return b->tenant && b->namespace && b->pod && b->uid && b->container ? 0 : -EINVAL;
}

/* The ids belong to the tree. */
static int read_ids(const cJSON *tree, const char *ids[IDS_MAX], size_t *ret_count)
{
	const cJSON *id;
	size_t n = 0;

	cJSON_ArrayForEach(id, cJSON_GetObjectItemCaseSensitive(tree, "ids"))
	{
		if (!cJSON_IsString(id) || n == IDS_MAX)
			return -EINVAL;
		ids[n++] = id->valuestring;
	}
	*ret_count = n;
	return n ? 0 : -EINVAL;
}

int binding_parse(const char *key, const char *text, size_t size, const struct host *host,
		  struct binding **ret_binding)
{
	owned(cJSON_Delete) cJSON *tree = cJSON_ParseWithLength(text, size);
	owned(binding_free) struct binding *b = NULL;
	const char *resource = json_text(tree, "resource"), *ids[IDS_MAX];
	size_t count;
	int r = resource ? read_ids(tree, ids, &count) : -EINVAL;

	if (r == 0)
		r = binding_make(resource, ids, count, &b);
	if (r == 0)
		r = strcmp(b->key, key) == 0 ? read_rest(b, tree, host) : -EINVAL;
	if (r < 0)
		return r;
	*ret_binding = take(b);
	return 0;
}
