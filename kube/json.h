/* SPDX-License-Identifier: Apache-2.0 */
/* Reads cJSON trees from other programs: no member is assumed to exist. */
#pragma once

#include <cjson/cJSON.h>

#include "base/macros.h"

OWNED_POINTER(cJSON, cJSON_Delete)

/* A member that is a string; NULL if there is none. `tree` may be NULL. Lent. */
static inline const char *json_text(const cJSON *tree, const char *name)
{
	const cJSON *member = cJSON_GetObjectItemCaseSensitive(tree, name);

	return cJSON_IsString(member) ? member->valuestring : NULL;
}
