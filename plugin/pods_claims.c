/* SPDX-License-Identifier: Apache-2.0 */
/* Which ResourceClaims a pod uses: those that it names, those that were made for it from templates,
 * and the one that kube-scheduler made for its extended resources. */
#include <string.h>

#include "kube/json.h"
#include "plugin/pods.h"

static bool add(cJSON *names, const char *name)
{
	return !name || cJSON_AddItemToArray(names, cJSON_CreateString(name));
}

static const char *made_for(const cJSON *statuses, const char *name)
{
	const cJSON *item;

	cJSON_ArrayForEach(item, statuses)
	{
		const char *of = json_text(item, "name");

		if (name && of && strcmp(of, name) == 0)
			return json_text(item, "resourceClaimName");
	}
	return NULL;
}

cJSON *pods_claims(const cJSON *object)
{
	const cJSON *spec = cJSON_GetObjectItemCaseSensitive(object, "spec");
	const cJSON *status = cJSON_GetObjectItemCaseSensitive(object, "status"), *item;
	const cJSON *made = cJSON_GetObjectItemCaseSensitive(status, "resourceClaimStatuses");
	const cJSON *extended =
		cJSON_GetObjectItemCaseSensitive(status, "extendedResourceClaimStatus");
	cJSON *names = cJSON_CreateArray();
	bool good = names && add(names, json_text(extended, "resourceClaimName"));

	cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(spec, "resourceClaims"))
	{
		const char *name = json_text(item, "resourceClaimName");

		good = good && add(names, name ? name : made_for(made, json_text(item, "name")));
	}
	if (good)
		return names;
	cJSON_Delete(names);
	return NULL;
}
