/* SPDX-License-Identifier: Apache-2.0 */
/* Which ResourceClaims a pod's containers use: those that the pod names, those that were made for
 * it from templates, and the one that kube-scheduler made for its extended resources. */
#include <string.h>

#include "kube/json.h"
#include "plugin/pods.h"

static const cJSON *find_named(const cJSON *list, const char *key, const char *name)
{
	const cJSON *item;

	cJSON_ArrayForEach(item, list)
	{
		const char *found = json_text(item, key);

		if (name && found && strcmp(found, name) == 0)
			return item;
	}
	return NULL;
}

static bool add(cJSON *names, const char *name)
{
	return !name || cJSON_AddItemToArray(names, cJSON_CreateString(name));
}

/* The claim of that name in the pod; NULL: it is not known yet. */
static const char *claim_of(const cJSON *object, const char *name)
{
	const cJSON *spec = cJSON_GetObjectItemCaseSensitive(object, "spec");
	const cJSON *status = cJSON_GetObjectItemCaseSensitive(object, "status");
	const cJSON *given =
		find_named(cJSON_GetObjectItemCaseSensitive(spec, "resourceClaims"), "name", name);
	const char *direct = json_text(given, "resourceClaimName");

	return direct ? direct
		      : json_text(find_named(cJSON_GetObjectItemCaseSensitive(
						     status, "resourceClaimStatuses"),
					     "name", name),
				  "resourceClaimName");
}

static const char *extended_claim_of(const cJSON *object, const char *container)
{
	const cJSON *status = cJSON_GetObjectItemCaseSensitive(object, "status");
	const cJSON *extended =
		cJSON_GetObjectItemCaseSensitive(status, "extendedResourceClaimStatus");
	const cJSON *mappings = cJSON_GetObjectItemCaseSensitive(extended, "requestMappings");

	return find_named(mappings, "containerName", container)
		       ? json_text(extended, "resourceClaimName")
		       : NULL;
}

static bool add_container(cJSON *all, const cJSON *object, const cJSON *container)
{
	const cJSON *resources = cJSON_GetObjectItemCaseSensitive(container, "resources"), *item;
	const char *name = json_text(container, "name");
	cJSON *names = name ? cJSON_AddArrayToObject(all, name) : NULL;
	bool good = names && add(names, extended_claim_of(object, name));

	cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(resources, "claims")) good =
		good && add(names, claim_of(object, json_text(item, "name")));
	return good || !name;
}

cJSON *pods_claims(const cJSON *object)
{
	static const char *const kinds[] = {"containers", "initContainers"};
	const cJSON *spec = cJSON_GetObjectItemCaseSensitive(object, "spec"), *item;
	cJSON *all = cJSON_CreateObject();
	bool good = all;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(spec, kinds[i])) good =
			good && add_container(all, object, item);
	if (good)
		return all;
	cJSON_Delete(all);
	return NULL;
}

bool pods_list_has(const cJSON *names, const char *claim)
{
	const cJSON *name;

	cJSON_ArrayForEach(name, names)
	{
		if (cJSON_IsString(name) && strcmp(name->valuestring, claim) == 0)
			return true;
	}
	return false;
}

bool pods_uses_claim(const struct pod *pod, const char *namespace, const char *claim)
{
	const cJSON *names;

	if (strcmp(pod->namespace, namespace) != 0)
		return false;
	cJSON_ArrayForEach(names, pod->claims)
	{
		if (pods_list_has(names, claim))
			return true;
	}
	return false;
}
