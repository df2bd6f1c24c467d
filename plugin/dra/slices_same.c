/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "kube/json.h"
#include "plugin/quantity.h"
#include "plugin/dra/slices.h"

/* The server sets when a taint was added. */
static bool is_added(const cJSON *item)
{
	return strcmp(item->string, SLICES_ADDED) == 0;
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

/* `ret_at`: on false the name of what differs, the innermost. Borrowed from one of both. */
static bool is_same(const cJSON *wanted, const cJSON *found, const char **ret_at);

static bool differs_at(const cJSON *item, const char **ret_at)
{
	if (!*ret_at)
		*ret_at = item->string;
	return false;
}

/* Nothing is missing, and nothing was put beside it. What is empty need not be written. */
static bool is_same_object(const cJSON *wanted, const cJSON *found, const char **ret_at)
{
	const cJSON *item;

	cJSON_ArrayForEach(item, wanted)
	{
		const cJSON *other = cJSON_GetObjectItemCaseSensitive(found, item->string);

		if (strcmp(item->string, "generation") == 0 || (!other && is_empty(item)))
			continue;
		if (!other || !is_same(item, other, ret_at))
			return differs_at(item, ret_at);
	}
	cJSON_ArrayForEach(item, found)
	{
		if (!is_added(item) && !is_empty(item) &&
		    !cJSON_GetObjectItemCaseSensitive(wanted, item->string))
			return differs_at(item, ret_at);
	}
	return true;
}

static bool is_same_array(const cJSON *wanted, const cJSON *found, const char **ret_at)
{
	const cJSON *a = wanted->child, *b = found->child;

	for (; a && b; a = a->next, b = b->next)
		if (!is_same(a, b, ret_at))
			return false;
	return !a && !b;
}

/* As deep as what we want: the wanted tree is ours. */
static bool is_same(const cJSON *wanted, const cJSON *found, const char **ret_at)
{
	if (cJSON_IsString(wanted))
		return cJSON_IsString(found) &&
		       is_same_text(wanted->valuestring, found->valuestring);
	if (cJSON_IsObject(wanted))
		return cJSON_IsObject(found) && is_same_object(wanted, found, ret_at);
	if (cJSON_IsArray(wanted))
		return cJSON_IsArray(found) && is_same_array(wanted, found, ret_at);
	return cJSON_Compare(wanted, found, true);
}

const char *slices_difference(const cJSON *wanted, const cJSON *found)
{
	const cJSON *a = cJSON_GetObjectItemCaseSensitive(wanted, "spec");
	const cJSON *b = cJSON_GetObjectItemCaseSensitive(found, "spec");
	const char *at = NULL;

	if (a && b && is_same(a, b, &at))
		return NULL;
	return at ? at : "spec";
}

bool slices_same(const cJSON *wanted, const cJSON *found)
{
	return !slices_difference(wanted, found);
}
