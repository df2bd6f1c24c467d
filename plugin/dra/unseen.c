/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/dra/unseen.h"

#include <string.h>

#include "kube/json.h"
#include "plugin/dra/inside.h"
#include "plugin/pods.h"

enum {
	PATIENCE_MS = 50, /* in which the watch usually has shown what the kubelet knows */
	WITHIN_S = 5,
};

static bool is_known(const struct dra *dra, const cJSON *pods)
{
	const cJSON *one;

	cJSON_ArrayForEach(one, pods)
	{
		const char *resource = json_text(one, "resource"), *uid = json_text(one, "uid");

		if (resource && uid && strcmp(resource, "pods") == 0 &&
		    !pods_find_uid(dra->plugin->pods, uid))
			return false;
	}
	return true;
}

static void end(struct unseen_claim *waits, const char *problem)
{
	unseen_forget(waits);
	waits->seen(waits, problem);
}

static void ask(struct dra *dra);

/* The first that has waited for the list; NULL: none. What its owner does may forget others. */
static struct unseen_claim *find_asked(const struct unseen *u)
{
	list_for_each(link, (struct list *)&u->waiting)
	{
		struct unseen_claim *waits = list_entry(link, struct unseen_claim, link);

		if (waits->asked)
			return waits;
	}
	return NULL;
}

static void on_listed(void *owner, int status, const char *problem, const cJSON *object)
{
	struct dra *dra = owner;
	struct unseen *u = &dra->unseen;
	const cJSON *items = cJSON_GetObjectItemCaseSensitive(object, "items"), *item;
	struct unseen_claim *waits;

	(void)status;
	u->asked = NULL;
	/* One of those that the list has may be gone by now: it would be here for ever. */
	if (!problem && dra->plugin->pods && pods_gone(dra->plugin->pods) != u->gone) {
		ask(dra);
		return;
	}
	if (!problem && dra->plugin->pods)
		cJSON_ArrayForEach(item, items) pods_learn(dra->plugin->pods, item);
	while ((waits = find_asked(u)))
		end(waits, problem);
	if (!list_empty(&u->waiting))
		loop_arm(&u->again, PATIENCE_MS * 1000000ull);
}

static void ask(struct dra *dra)
{
	struct unseen *u = &dra->unseen;
	char path[400];
	const struct api_request request = {
		.verb = "GET", .path = path, .within_ns = WITHIN_S * 1000000000ull};
	struct unseen_claim *waits;

	/* Without a `resourceVersion`, and so as recent as what the kubelet has seen. */
	snprintf(path, sizeof(path), "/api/v1/pods?fieldSelector=spec.nodeName%%3D%s",
		 dra->plugin->node);
	list_for_each(link, &u->waiting) list_entry(link, struct unseen_claim, link)->asked = true;
	u->gone = pods_gone(dra->plugin->pods);
	if (api_ask(dra->plugin->api, &request, on_listed, dra, &u->asked) == 0)
		return;
	while ((waits = find_asked(u)))
		end(waits, "out of memory");
}

static void on_again(struct loop_timer *timer)
{
	struct dra *dra = container_of(timer, struct dra, unseen.again);

	if (!dra->unseen.asked && !list_empty(&dra->unseen.waiting) && dra->plugin->pods)
		ask(dra);
}

int unseen_open(struct dra *dra)
{
	list_init(&dra->unseen.waiting);
	return loop_timer_init(dra->plugin->host->loop, &dra->unseen.again, on_again);
}

int unseen_wait(struct dra *dra, struct unseen_claim *waits, const cJSON *object)
{
	const cJSON *status = cJSON_GetObjectItemCaseSensitive(object, "status");
	const cJSON *pods = cJSON_GetObjectItemCaseSensitive(status, "reservedFor");
	struct unseen *u = &dra->unseen;

	if (!dra->plugin->pods || is_known(dra, pods))
		return 0;
	waits->pods = cJSON_Duplicate(pods, true);
	if (!waits->pods)
		return -ENOMEM;
	if (list_empty(&u->waiting))
		loop_arm(&u->again, PATIENCE_MS * 1000000ull);
	list_append(&u->waiting, &waits->link);
	return 1;
}

/* Called within a change of the pods: seen() does no more than note it where there is no problem.
 */
void unseen_look(struct dra *dra)
{
	if (!dra->plugin->pods)
		return;
	list_for_each(link, &dra->unseen.waiting)
	{
		struct unseen_claim *waits = list_entry(link, struct unseen_claim, link);

		if (is_known(dra, waits->pods))
			end(waits, NULL);
	}
}

void unseen_forget(struct unseen_claim *waits)
{
	list_remove(&waits->link);
	cJSON_Delete(take(waits->pods));
	waits->asked = false;
}

void unseen_close(struct dra *dra)
{
	if (dra->unseen.asked)
		api_forget(take(dra->unseen.asked));
	loop_disarm(&dra->unseen.again);
}
