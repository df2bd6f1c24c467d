/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kube/json.h"
#include "plugin/quantity.h"
#include "plugin/dra/slices.h"

/* The server sets when a taint was added. */
static bool is_added(const cJSON *item)
{
	return strcmp(item->string, "timeAdded") == 0;
}

static bool is_empty(const cJSON *item)
{
	return (cJSON_IsArray(item) || cJSON_IsObject(item)) && !item->child;
}

static bool is_same_text(const char *wanted, const char *found)
{
	uint64_t a, b;

	if (strcmp(wanted, found) == 0)
		return true;
	return quantity_read_up(wanted, &a) == 0 && quantity_read_up(found, &b) == 0 && a == b;
}

static bool is_same(const cJSON *wanted, const cJSON *found);

/* Nothing is missing, and nothing was put beside it. What is empty need not be written. */
static bool is_same_object(const cJSON *wanted, const cJSON *found)
{
	const cJSON *item;

	cJSON_ArrayForEach(item, wanted)
	{
		const cJSON *other = cJSON_GetObjectItemCaseSensitive(found, item->string);

		if (strcmp(item->string, "generation") == 0 || (!other && is_empty(item)))
			continue;
		if (!other || !is_same(item, other))
			return false;
	}
	cJSON_ArrayForEach(item, found)
	{
		if (!is_added(item) && !is_empty(item) &&
		    !cJSON_GetObjectItemCaseSensitive(wanted, item->string))
			return false;
	}
	return true;
}

static bool is_same_array(const cJSON *wanted, const cJSON *found)
{
	const cJSON *a = wanted->child, *b = found->child;

	for (; a && b; a = a->next, b = b->next)
		if (!is_same(a, b))
			return false;
	return !a && !b;
}

/* As deep as what we want: the wanted tree is ours. */
static bool is_same(const cJSON *wanted, const cJSON *found)
{
	if (cJSON_IsString(wanted))
		return cJSON_IsString(found) &&
		       is_same_text(wanted->valuestring, found->valuestring);
	if (cJSON_IsObject(wanted))
		return cJSON_IsObject(found) && is_same_object(wanted, found);
	if (cJSON_IsArray(wanted))
		return cJSON_IsArray(found) && is_same_array(wanted, found);
	return cJSON_Compare(wanted, found, true);
}

bool slices_same(const cJSON *wanted, const cJSON *found)
{
	const cJSON *a = cJSON_GetObjectItemCaseSensitive(wanted, "spec");
	const cJSON *b = cJSON_GetObjectItemCaseSensitive(found, "spec");

	return a && b && is_same(a, b);
}
