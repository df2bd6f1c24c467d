/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/review.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kube/json.h"

/* `spec` is taken over. */
static char *review(const char *version, const char *kind, cJSON *spec)
{
	owned(cJSON_Delete) cJSON *tree = cJSON_CreateObject();

	if (!tree || !spec || !cJSON_AddItemToObject(tree, "spec", spec)) {
		cJSON_Delete(spec);
		return NULL;
	}
	if (!cJSON_AddStringToObject(tree, "apiVersion", version) ||
	    !cJSON_AddStringToObject(tree, "kind", kind))
		return NULL;
	return cJSON_PrintUnformatted(tree);
}

char *review_ask_token(const char *token, const char *audience)
{
	owned(cJSON_Delete) cJSON *spec = cJSON_CreateObject();
	cJSON *audiences = NULL, *one = NULL;

	if (!spec || !cJSON_AddStringToObject(spec, "token", token))
		return NULL;
	if (audience) {
		audiences = cJSON_AddArrayToObject(spec, "audiences");
		one = cJSON_CreateString(audience);
		if (!audiences || !one || !cJSON_AddItemToArray(audiences, one)) {
			cJSON_Delete(one);
			return NULL;
		}
	}
	return review("authentication.k8s.io/v1", "TokenReview", take(spec));
}

/* A server that knows nothing of audiences names none: its word is then about itself. */
static bool is_for(const cJSON *status, const char *audience)
{
	const cJSON *one;

	if (!audience)
		return true;
	cJSON_ArrayForEach(one, cJSON_GetObjectItemCaseSensitive(status, "audiences"))
	{
		if (cJSON_IsString(one) && strcmp(one->valuestring, audience) == 0)
			return true;
	}
	return false;
}

static bool copy(cJSON *to, const char *name, const cJSON *from)
{
	cJSON *twin = from ? cJSON_Duplicate(from, true) : NULL;

	if (!from || cJSON_IsNull(from))
		return cJSON_Delete(twin), true;
	if (twin && cJSON_AddItemToObject(to, name, twin))
		return true;
	cJSON_Delete(twin);
	return false;
}

/* The keys of a user in the one answer, and in the other request. */
static const char *const keys[][2] = {
	{"username", "user"}, {"uid", "uid"}, {"groups", "groups"}, {"extra", "extra"}};

int review_read_token(const cJSON *answer, const char *audience, char **ret_user, char **ret_name)
{
	const cJSON *status = cJSON_GetObjectItemCaseSensitive(answer, "status");
	const cJSON *user = cJSON_GetObjectItemCaseSensitive(status, "user");
	const char *name = json_text(user, "username");
	owned(cJSON_Delete) cJSON *tree = NULL;
	owned(free) char *text = NULL;

	if (!cJSON_IsObject(status))
		return -EBADMSG;
	if (!cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(status, "authenticated")) ||
	    !is_for(status, audience))
		return RIGHT_NO;
	if (!name || !*name)
		return -EBADMSG;
	tree = cJSON_CreateObject();
	for (size_t i = 0; tree && i < ARRAY_SIZE(keys); i++)
		if (!copy(tree, keys[i][1], cJSON_GetObjectItemCaseSensitive(user, keys[i][0])))
			return -ENOMEM;
	text = tree ? cJSON_PrintUnformatted(tree) : NULL;
	*ret_name = text ? strdup(name) : NULL;
	if (!*ret_name)
		return -ENOMEM;
	*ret_user = take(text);
	return 0;
}

static bool add(cJSON *to, const char *name, const char *text)
{
	return !*text || cJSON_AddStringToObject(to, name, text);
}

char *review_ask_right(const char *user, const struct right *right)
{
	owned(cJSON_Delete) cJSON *spec = cJSON_Parse(user);
	cJSON *to;

	if (!json_text(spec, "user"))
		return NULL;
	to = cJSON_AddObjectToObject(spec, "resourceAttributes");
	if (!to || !add(to, "verb", "get") || !add(to, "group", right->group) ||
	    !add(to, "resource", right->resource) || !add(to, "subresource", right->subresource) ||
	    !add(to, "namespace", right->namespace) || !add(to, "name", right->name))
		return NULL;
	return review("authorization.k8s.io/v1", "SubjectAccessReview", take(spec));
}

int review_read_right(const cJSON *answer)
{
	const cJSON *status = cJSON_GetObjectItemCaseSensitive(answer, "status");
	const cJSON *denied = cJSON_GetObjectItemCaseSensitive(status, "denied");

	if (!cJSON_IsObject(status))
		return -EBADMSG;
	return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(status, "allowed")) &&
			       !cJSON_IsTrue(denied)
		       ? 0
		       : RIGHT_NO;
}
