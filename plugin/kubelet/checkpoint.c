/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/kubelet/checkpoint.h"

#include <string.h>

#include "kube/json.h"
#include "plugin/kubelet/ids.h"

/* Returns false if the value is no list of ids, or longer than a container's can be. */
static bool add_ids(const cJSON *node, const char **ids, size_t *count)
{
	const cJSON *id;

	cJSON_ArrayForEach(id, node)
	{
		if (!cJSON_IsString(id) || *count == IDS_MAX)
			return false;
		ids[(*count)++] = id->valuestring;
	}
	return true;
}

/* Reads {"<NUMA node>": ["id", ...], ...}. */
static bool read_ids(const cJSON *nodes, const char **ret_ids, size_t *ret_count)
{
	const cJSON *node;

	*ret_count = 0;
	cJSON_ArrayForEach(node, nodes)
	{
		if (!add_ids(node, ret_ids, ret_count))
			return false;
	}
	return true;
}

static void look_at(const cJSON *entry, const char *resource, const char *const *ids, size_t count,
		    checkpoint_found *found, void *owner)
{
	const char *uid = json_text(entry, "PodUID"),
		   *container = json_text(entry, "ContainerName"),
		   *name = json_text(entry, "ResourceName"), *has[IDS_MAX];
	size_t n;

	if (!uid || !container || !name || strcmp(name, resource) != 0)
		return;
	if (read_ids(cJSON_GetObjectItemCaseSensitive(entry, "DeviceIDs"), has, &n) &&
	    ids_same(has, n, ids, count))
		found(owner, uid, container);
}

static void say_ids(const cJSON *entry, const char *resource, checkpoint_id *found, void *owner)
{
	const char *uid = json_text(entry, "PodUID"), *name = json_text(entry, "ResourceName"),
		   *has[IDS_MAX];
	size_t n;

	if (!uid || !name || (resource && strcmp(name, resource) != 0) ||
	    !read_ids(cJSON_GetObjectItemCaseSensitive(entry, "DeviceIDs"), has, &n))
		return;
	for (size_t i = 0; i < n; i++)
		found(owner, uid, has[i]);
}

int checkpoint_given(const char *text, size_t size, const char *resource, checkpoint_id *found,
		     void *owner)
{
	owned(cJSON_Delete) cJSON *tree =
		size <= CHECKPOINT_BYTES_MAX ? cJSON_ParseWithLength(text, size) : NULL;
	const cJSON *data = cJSON_GetObjectItemCaseSensitive(tree, "Data");
	const cJSON *entries = cJSON_GetObjectItemCaseSensitive(data, "PodDeviceEntries"), *entry;

	cJSON_ArrayForEach(entry, entries) say_ids(entry, resource, found, owner);
	return cJSON_IsArray(entries) || cJSON_IsNull(entries) ? 0 : -EINVAL;
}

int checkpoint_registered(const char *text, size_t size, checkpoint_resource *found, void *owner)
{
	owned(cJSON_Delete) cJSON *tree =
		size <= CHECKPOINT_BYTES_MAX ? cJSON_ParseWithLength(text, size) : NULL;
	const cJSON *data = cJSON_GetObjectItemCaseSensitive(tree, "Data");
	const cJSON *all = cJSON_GetObjectItemCaseSensitive(data, "RegisteredDevices"), *one;

	if (!cJSON_IsObject(all))
		return cJSON_IsNull(all) ? 0 : -EINVAL;
	cJSON_ArrayForEach(one, all) found(owner, one->string);
	return 0;
}

int checkpoint_look(const char *text, size_t size, const char *resource, const char *const *ids,
		    size_t count, checkpoint_found *found, void *owner)
{
	owned(cJSON_Delete) cJSON *tree =
		size <= CHECKPOINT_BYTES_MAX ? cJSON_ParseWithLength(text, size) : NULL;
	const cJSON *data = cJSON_GetObjectItemCaseSensitive(tree, "Data");
	const cJSON *entries = cJSON_GetObjectItemCaseSensitive(data, "PodDeviceEntries"), *entry;

	cJSON_ArrayForEach(entry, entries) look_at(entry, resource, ids, count, found, owner);
	return cJSON_IsArray(entries) || cJSON_IsNull(entries) ? 0 : -EINVAL;
}
