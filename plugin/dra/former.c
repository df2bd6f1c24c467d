/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a driver that still has its former name is needed under it (name.c). Its devices are
 * published no more, so that nobody gets one. When no claim of that name is prepared and no slice
 * is left, and none was at the look before, all claims are read, page by page; when none has one of
 * those devices, the driver takes its new name. So kube-scheduler has had the time of a look to
 * write what it had decided.
 *
 * All claims of a cluster are many, and all its nodes may get a new name at once. So the first one
 * that has such a device is remembered, and it alone is read at each look; all are read again when
 * it needs the name no more. However often that happens, or a page cannot be read, there are as
 * many looks between two lists as the first one had pages.
 */
#include <string.h>

#include "base/least.h"
#include "base/text.h"
#include "base/words.h"
#include "kube/json.h"
#include "plugin/dra/inside.h"

enum {
	PAGE = 100,	/* is parsed in one go, while everything else on meted's loop waits */
	REST_MOST = 60, /* looks: ten minutes */
};

static bool is_prepared(const struct dra *dra)
{
	list_for_each(link, (struct list *)&dra->journal.all)
	{
		if (strcmp(list_entry(link, struct journal_claim, link)->kind, dra->kind) == 0)
			return true;
	}
	return false;
}

/* Is one of its devices ours? The pool has the node's name. */
static bool has_device(const struct dra *dra, const cJSON *claim)
{
	const cJSON *status = cJSON_GetObjectItemCaseSensitive(claim, "status");
	const cJSON *allocation = cJSON_GetObjectItemCaseSensitive(status, "allocation");
	const cJSON *devices = cJSON_GetObjectItemCaseSensitive(allocation, "devices"), *result;

	cJSON_ArrayForEach(result, cJSON_GetObjectItemCaseSensitive(devices, "results"))
	{
		const char *driver = json_text(result, "driver"), *pool = json_text(result, "pool");

		if (driver && pool && strcmp(driver, dra->driver) == 0 &&
		    strcmp(pool, dra->pool) == 0)
			return true;
	}
	return false;
}

static void ask_page(struct dra *dra, const char *next);

/* NULL: nobody needs it. */
static const cJSON *find_user(const struct dra *dra, const cJSON *list)
{
	const cJSON *claim;

	cJSON_ArrayForEach(claim, cJSON_GetObjectItemCaseSensitive(list, "items"))
	{
		if (has_device(dra, claim))
			return claim;
	}
	return NULL;
}

/* Goes into a request as it is. */
static bool is_token(const char *text)
{
	return !text[strspn(text,
			    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=")];
}

static void tell_unknown(struct dra *dra, const char *problem)
{
	struct fault why;

	if (dra->untold_former)
		return;
	dra->untold_former = true;
	fault_set(&why, 0, "whether a claim has a device of this name cannot be read: %s", problem);
	log_warning("dra.name_kept", "driver=%s reason=%s", dra->driver, log_text(why.text).text);
}

/* Once, until it is another one: a claim that no pod uses any more has to be deleted by somebody.
 */
static void tell_needed(struct dra *dra, const cJSON *claim)
{
	const cJSON *meta = cJSON_GetObjectItemCaseSensitive(claim, "metadata");
	const char *namespace = json_text(meta, "namespace"), *name = json_text(meta, "name");
	owned(free) char *needed = NULL;

	if (!namespace || !words_is_label(namespace) || !name || !words_is_subdomain(name) ||
	    asprintf(&needed, "%s/%s", namespace, name) < 0)
		needed = NULL;
	if (!needed || text_same(needed, dra->needed))
		return;
	log_info("dra.name_needed", "driver=%s claim=%s reason=\"it has a device of this name\"",
		 dra->driver, needed);
	free(dra->needed);
	dra->needed = take(needed);
}

static void forget_needed(struct dra *dra)
{
	free(take(dra->needed));
}

/* What is none proves nothing. An empty one may be as Go writes it. */
static bool is_list(const cJSON *object)
{
	const cJSON *meta = cJSON_GetObjectItemCaseSensitive(object, "metadata");
	const cJSON *items = cJSON_GetObjectItemCaseSensitive(object, "items");
	const char *next = json_text(meta, "continue");

	return (cJSON_IsArray(items) || cJSON_IsNull(items)) && (!next || is_token(next));
}

static void on_page(void *owner, int status, const char *problem, const cJSON *object)
{
	struct dra *dra = owner;
	const cJSON *meta = cJSON_GetObjectItemCaseSensitive(object, "metadata");
	const char *next = json_text(meta, "continue");
	const cJSON *user;

	(void)status;
	dra->former = NULL;
	dra->former_rest = (uint32_t)least(REST_MOST, dra->former_rest + 1);
	if (!problem && !is_list(object))
		problem = "the answer is no list";
	if (problem) {
		tell_unknown(dra, problem);
		return;
	}
	user = find_user(dra, object);
	if (!user && next && *next) {
		ask_page(dra, next);
		return;
	}
	/* Not before: the first page may be answered each time, and a later one never. */
	dra->untold_former = false;
	if (user)
		tell_needed(dra, user);
	else if (!is_prepared(dra) && list_empty(&dra->asking))
		name_change(dra);
}

/* `next`: as the page before has it; NULL: there is none. */
static void ask_page(struct dra *dra, const char *next)
{
	owned(free) char *path = NULL;
	struct api_request request = {.verb = "GET"};

	if (asprintf(&path, "/apis/resource.k8s.io/v1/resourceclaims?limit=%d%s%s", PAGE,
		     next ? "&continue=" : "", next ? next : "") < 0)
		path = NULL;
	request.path = path;
	/* Without memory it is asked again at the next look. */
	if (path)
		best_effort(api_ask(dra->plugin->api, &request, on_page, dra, &dra->former));
}

/* If it is time. */
static void ask_all(struct dra *dra)
{
	if (!dra->former_rest)
		ask_page(dra, NULL);
}

/* Only a list proves that nobody needs the name. */
static void on_needed(void *owner, int status, const char *problem, const cJSON *object)
{
	struct dra *dra = owner;

	dra->former = NULL;
	if (problem && status != 404) {
		tell_unknown(dra, problem);
		return;
	}
	if (!problem && has_device(dra, object)) {
		dra->untold_former = false;
		return;
	}
	forget_needed(dra);
	ask_all(dra);
}

static void ask_needed(struct dra *dra)
{
	const char *name = strchr(dra->needed, '/') + 1;
	owned(free) char *path = NULL;
	struct api_request request = {.verb = "GET"};

	if (asprintf(&path, "/apis/resource.k8s.io/v1/namespaces/%.*s/resourceclaims/%s",
		     (int)(name - 1 - dra->needed), dra->needed, name) < 0)
		path = NULL;
	request.path = path;
	/* Likewise. */
	if (path)
		best_effort(api_ask(dra->plugin->api, &request, on_needed, dra, &dra->former));
}

/* Nobody is to be given another device by a name that is about to go. */
static void withdraw(struct dra *dra)
{
	if (dra->withdrawn)
		return;
	dra->withdrawn = true;
	publish_consider(dra->publish);
}

void former_look(struct dra *dra)
{
	withdraw(dra);
	if (dra->former_rest && !dra->former)
		dra->former_rest--;
	/* Calls that wait are answered first. */
	if (is_prepared(dra) || !list_empty(&dra->asking) || dra->former)
		return;
	/* Then nothing is published, and no claim can be read. */
	if (!dra->plugin->api) {
		name_change(dra);
		return;
	}
	if (!publish_is_empty(dra->publish))
		dra->emptied = false;
	else if (!dra->emptied)
		dra->emptied = true;
	else if (dra->needed)
		ask_needed(dra);
	else
		ask_all(dra);
}

void former_forget(struct dra *dra)
{
	forget_needed(dra);
	dra->withdrawn = dra->emptied = dra->untold_former = false;
	dra->former_rest = 0;
}

void former_close(struct dra *dra)
{
	if (dra->former)
		api_forget(take(dra->former));
	forget_needed(dra);
}
