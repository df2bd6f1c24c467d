/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"
#include "kube/json.h"
#include "plugin/dra/publish.h"

/* It is asked again at each look: once, until there is another sentence. */
static void tell_waiting(struct publish *u, const char *reason)
{
	if (text_same(reason, u->waiting))
		return;
	log_warning("slices.waiting", "reason=%s", log_text(reason).text);
	free(u->waiting);
	u->waiting = strdup(reason);
}

/* The owner of slices is named by its UID. */
static void on_node(void *owner, int status, const char *problem, const cJSON *object)
{
	struct publish *u = owner;
	const char *uid = json_text(cJSON_GetObjectItemCaseSensitive(object, "metadata"), "uid");

	(void)status;
	u->node = NULL;
	if (!problem && uid)
		snprintf(u->node_uid, sizeof(u->node_uid), "%s", uid);
	if (!*u->node_uid) {
		tell_waiting(u, problem ? problem : "the node has no UID");
		return;
	}
	free(take(u->waiting));
	publish_consider(u);
}

void publish_find_node(struct publish *u)
{
	char path[400];
	struct api_request request = {.verb = "GET", .path = path};

	if (u->node)
		return;
	snprintf(path, sizeof(path), "/api/v1/nodes/%s", u->dra->plugin->node);
	best_effort(api_ask(u->dra->plugin->api, &request, on_node, u, &u->node));
}

static void on_begins(void *owner)
{
	known_begin(owner);
}

static void on_seen(void *owner, const cJSON *object)
{
	known_see(owner, object);
	publish_consider(owner);
}

static void on_gone(void *owner, const cJSON *object)
{
	struct publish *u = owner;

	known_gone(u, object);
	/* Perhaps with its owner: a node that was deleted, and that the kubelet has made anew, has
	 * another UID, and whatever has the former one is collected again and again. */
	*u->node_uid = '\0';
	publish_consider(u);
}

static void on_listed(void *owner)
{
	struct publish *u = owner;

	known_end(u);
	u->listed = true;
	publish_consider(u);
}

static void on_troubled(void *owner, const char *problem)
{
	(void)owner;
	if (problem)
		log_warning("slices.troubled", "reason=%s", log_text(problem).text);
}

static void on_again(struct loop_timer *timer)
{
	struct publish *u = container_of(timer, struct publish, again);

	u->again_waits = false;
	publish_consider(u);
}

static void on_again_closed(struct loop_timer *timer)
{
	free(container_of(timer, struct publish, again));
}

int publish_open(struct dra *dra, struct publish **ret_publish, struct fault *why)
{
	static const struct api_watcher watcher = {on_begins, on_seen, on_gone, on_listed,
						   on_troubled};
	struct publish *u = calloc(1, sizeof(*u));
	char path[500];
	int r = u ? loop_timer_init(dra->plugin->host->loop, &u->again, on_again) : -ENOMEM;

	if (r < 0) {
		free(u);
		return fault_set(why, r, "no timer");
	}
	u->dra = dra;
	list_init(&u->known);
	/* Without memory times begin anew. */
	u->times = cJSON_CreateObject();
	snprintf(path, sizeof(path),
		 "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%%3D%s%%2C"
		 "spec.driver%%3D%s",
		 dra->plugin->node, dra->driver);
	r = api_watch_open(dra->plugin->api, path, &watcher, u, &u->watch);
	if (r < 0) {
		publish_close(u);
		return fault_set(why, r, "resource slices: %s", strerror(-r));
	}
	*ret_publish = u;
	return 0;
}

void publish_close(struct publish *u)
{
	if (!u)
		return;
	if (u->watch)
		api_watch_close(u->watch);
	if (u->asked)
		api_forget(u->asked);
	if (u->node)
		api_forget(u->node);
	known_free(u);
	free(u->complaint);
	free(u->wanted);
	free(u->unkept);
	free(u->waiting);
	cJSON_Delete(u->sent);
	cJSON_Delete(u->times);
	loop_timer_close(&u->again, on_again_closed);
}
