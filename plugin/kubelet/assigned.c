/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/kubelet/assigned.h"

#include "kube/json.h"

int assigned_read(const char *text, const char *container, assigned_found *found, void *owner)
{
	owned(cJSON_Delete) cJSON *tree = cJSON_Parse(text);
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(tree, "containers");
	int r = -ENOENT;

	item = cJSON_GetObjectItemCaseSensitive(item, container);
	cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(item, "devices"))
	{
		r = found(owner, cJSON_GetStringValue(item));
		if (r != 0)
			break;
	}
	return r;
}
