/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/nodes.h"

#include <stdlib.h>
#include <string.h>

#include "kube/json.h"
#include "plugin/nvidia/mig_label.h"
#include "plugin/nvidia/node_features.h"
#include "plugin/quantity.h"
#include "plugin/sums/seats.h"

enum {
	LABELS_MAX = 512,
	EVERY_S = 10, /* beyond some, one patch in this time: another program may undo our writes */
	AT_ONCE = 10,
	LEAVE_S = 3, /* a silent API server must not keep anybody from ending */
};

struct nodes {
	struct plugin *plugin;
	struct api_watch *watch;
	cJSON *labels; /* NULL: unknown yet */
	struct features_rival rival;
	struct api_asked *asked; /* a patch is in progress */
	struct loop_timer again;
	uint64_t paid_ns;	    /* patches are paid for up to this time, EVERY_S each */
	bool seen;		    /* the node exists, according to the list that began last */
	uint64_t version;	    /* of the node, the newest that is known; 0: none */
	char memory[24], milli[24]; /* as in the node's status; "": not there */
	char owner[CONFIG_NAME_MAX + 1]; /* likewise, its annotation */
	bool written;			 /* perhaps by us: the watch need not have shown it yet */
};

/* Amounts that kube-scheduler sums up itself. It cannot see to which device they belong, which
 * the scheduler that chooses the device can. They are written by the owner of their names, and
 * again if the kubelet has removed them (it does when it starts). */
static bool find_sums(const struct plugin *p, char ret_memory[24], char ret_milli[24])
{
	unsigned __int128 bytes = 0;
	uint64_t milli = 0;

	*ret_memory = *ret_milli = '\0';
	if (p->config->ids != CONFIG_IDS_SLOT)
		return true;
	if (p->seats) {
		uint64_t counted;

		if (!seats_sums(p, &counted, &milli))
			return false;
		snprintf(ret_memory, 24, "%llu", (unsigned long long)counted);
		snprintf(ret_milli, 24, "%llu", (unsigned long long)milli);
		return true;
	}
	for (uint32_t i = 0; i < p->host->devices; i++) {
		/* If another owner runs, no new container starts: there is nothing to sum up. */
		if (!p->offer[i].shared || !offer_is_open(&p->offer[i]) || p->enrol.rival)
			continue;
		bytes += p->host->device[i].total_bytes;
		milli += 1000;
	}
	snprintf(ret_memory, 24, "%llu", (unsigned long long)config_promised(p->config, bytes));
	snprintf(ret_milli, 24, "%llu", (unsigned long long)milli);
	return true;
}

/* With `ids: uuid` no scheduler counts by sums: the former ones are removed. */
static bool add_sum(cJSON *list, const char *name, const char *sum)
{
	return list && (*sum ? cJSON_AddStringToObject(list, name, sum)
			     : cJSON_AddNullToObject(list, name));
}

/* NULL: out of memory. */
static char *patch_text(const struct plugin *p, const char *memory, const char *milli,
			cJSON *features)
{
	/* The kubelet derives the second from the first, but not at once. */
	static const char *const lists[] = {"capacity", "allocatable"};
	owned(cJSON_Delete) cJSON *tree = cJSON_CreateObject();
	cJSON *meta = cJSON_AddObjectToObject(tree, "metadata");
	cJSON *marks = cJSON_AddObjectToObject(meta, "annotations");
	cJSON *status = cJSON_AddObjectToObject(tree, "status");
	char memory_name[CONFIG_NAME_MAX + 16], milli_name[CONFIG_NAME_MAX + 16];
	char owner_name[CONFIG_NAME_MAX + 16];

	snprintf(owner_name, sizeof(owner_name), "%s/owner", p->config->domain);
	if (!marks || !cJSON_AddStringToObject(marks, owner_name, p->config->resource))
		return NULL;
	if (features && !cJSON_AddItemReferenceToObject(meta, "labels", features))
		return NULL;
	snprintf(memory_name, sizeof(memory_name), "%s/gpu-memory", p->config->domain);
	snprintf(milli_name, sizeof(milli_name), "%s/gpu-milli", p->config->domain);
	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		cJSON *list = cJSON_AddObjectToObject(status, lists[i]);

		if (!add_sum(list, memory_name, memory) || !add_sum(list, milli_name, milli))
			return NULL;
	}
	return cJSON_PrintUnformatted(tree);
}

static bool is_time(struct nodes *nodes)
{
	const uint64_t each = EVERY_S * 1000000000ull, ahead = (AT_ONCE - 1) * each;
	uint64_t now = loop_now_ns(), paid = nodes->paid_ns > now ? nodes->paid_ns : now;

	if (paid - now > ahead) {
		loop_arm(&nodes->again, paid - now - ahead);
		return false;
	}
	nodes->paid_ns = paid + each;
	return true;
}

static void on_patched(void *owner, int status, const char *problem, const cJSON *object);

/* The labels that the node should have; NULL: none, or they are left to another program. */
static cJSON *own_features(struct nodes *nodes)
{
	struct plugin *p = nodes->plugin;
	cJSON *features = node_features(p);
	struct fault what;

	if (!features)
		return NULL;
	if (features_rival_look(&nodes->rival, features, nodes->labels, &what)) {
		log_warning("node.labels_contested", "reason=%s", log_text(what.text).text);
		events_node(p, "NodeLabelsContested", what.text);
	}
	if (!nodes->rival.yields)
		return features;
	cJSON_Delete(features);
	return NULL;
}

static void write_sums(struct nodes *nodes)
{
	struct plugin *p = nodes->plugin;
	char memory[24], milli[24], path[400];
	owned(cJSON_Delete) cJSON *features = NULL;
	owned(free) char *body = NULL;
	struct api_request request = {
		.verb = "PATCH", .path = path, .content = "application/merge-patch+json"};

	if (!p->settled || !nodes->labels || nodes->asked)
		return;
	if (!find_sums(p, memory, milli))
		return;
	features = own_features(nodes);
	if (strcmp(p->config->resource, nodes->owner) == 0 && strcmp(memory, nodes->memory) == 0 &&
	    strcmp(milli, nodes->milli) == 0 && node_features_shown(features, nodes->labels))
		return;
	if (!is_time(nodes))
		return;
	snprintf(path, sizeof(path), "/api/v1/nodes/%s/status", p->node);
	request.body = body = patch_text(p, memory, milli, features);
	if (!body || api_ask(p->api, &request, on_patched, nodes, &nodes->asked) < 0)
		loop_arm(&nodes->again, EVERY_S * 1000000000ull);
	else
		nodes->written = true;
}

void nodes_changed(struct nodes *nodes)
{
	if (nodes)
		write_sums(nodes);
}

static void on_again(struct loop_timer *timer)
{
	write_sums(container_of(timer, struct nodes, again));
}

/* "": there is none; "?": it is not ours. */
static void read_sum(const struct nodes *nodes, const cJSON *capacity, const char *what,
		     char ret_text[QUANTITY_TEXT])
{
	char name[CONFIG_NAME_MAX + 16];
	const char *text;

	snprintf(name, sizeof(name), "%s/%s", nodes->plugin->config->domain, what);
	text = json_text(capacity, name);
	if (!text || quantity_plain(text, ret_text) < 0)
		snprintf(ret_text, QUANTITY_TEXT, "%s", text ? "?" : "");
}

void nodes_reload(struct nodes *nodes, struct plugin *p)
{
	struct config_label labels[LABELS_MAX];
	const cJSON *all = nodes ? nodes->labels : NULL, *label;
	size_t n = 0;

	cJSON_ArrayForEach(label, all)
	{
		if (n < LABELS_MAX && cJSON_IsString(label))
			labels[n++] = (struct config_label){label->string, label->valuestring};
	}
	active_config_reload(p, labels, n);
}

bool nodes_known(const struct nodes *nodes)
{
	return nodes && nodes->labels;
}

/* Only the labels are remembered, and only if they have changed: a node's status changes every few
 * seconds. */
static void take_labels(struct nodes *nodes, const cJSON *labels)
{
	cJSON *copy = labels ? cJSON_Duplicate(labels, true) : cJSON_CreateObject();

	if (!copy || (nodes->labels && cJSON_Compare(nodes->labels, copy, true))) {
		cJSON_Delete(copy);
		return;
	}
	cJSON_Delete(nodes->labels);
	nodes->labels = copy;
	mig_label_seen(nodes->plugin->mig, copy);
	nodes_reload(nodes, nodes->plugin);
}

/* The owner of the node's GPUs, by the resource under which they are requested. */
static void read_owner(struct nodes *nodes, const cJSON *meta)
{
	const cJSON *marks = cJSON_GetObjectItemCaseSensitive(meta, "annotations");
	char name[CONFIG_NAME_MAX + 16];
	const char *text;

	snprintf(name, sizeof(name), "%s/owner", nodes->plugin->config->domain);
	text = json_text(marks, name);
	snprintf(nodes->owner, sizeof(nodes->owner), "%s", text ? text : "");
}

/* Versions of an object grow, and are compared as numbers. 0: it says none. */
static uint64_t version_of(const cJSON *meta)
{
	const char *text = json_text(meta, "resourceVersion");

	return text ? strtoull(text, NULL, 10) : 0;
}

/* An answer to a write and the watch may overtake each other: a version older than the known one
 * is passed over, or the sums would be written again because they seem to be gone. */
static void take_node(struct nodes *nodes, const cJSON *object)
{
	const cJSON *meta = cJSON_GetObjectItemCaseSensitive(object, "metadata");
	const cJSON *status = cJSON_GetObjectItemCaseSensitive(object, "status");
	const cJSON *capacity = cJSON_GetObjectItemCaseSensitive(status, "capacity");
	uint64_t version = version_of(meta);

	if (version < nodes->version)
		return;
	nodes->version = version;
	cdi_learn(nodes->plugin, status);
	read_owner(nodes, meta);
	read_sum(nodes, capacity, "gpu-memory", nodes->memory);
	read_sum(nodes, capacity, "gpu-milli", nodes->milli);
	take_labels(nodes, cJSON_GetObjectItemCaseSensitive(meta, "labels"));
	/* Each state of the node counts, also while it is being written. */
	if (nodes->plugin->settled && nodes->labels)
		cJSON_Delete(own_features(nodes));
}

static void on_seen(void *owner, const cJSON *object)
{
	struct nodes *nodes = owner;

	nodes->seen = true;
	take_node(nodes, object);
	write_sums(nodes);
}

/* The node as it is after the write: the watch may be slow to show it. */
static void on_patched(void *owner, int status, const char *problem, const cJSON *object)
{
	struct nodes *nodes = owner;

	(void)status;
	nodes->asked = NULL;
	if (problem) {
		log_warning("node.sums_unwritten", "reason=%s", log_text(problem).text);
		loop_arm(&nodes->again, EVERY_S * 1000000000ull);
		return;
	}
	take_node(nodes, object);
	write_sums(nodes);
}

static void on_begins(void *owner)
{
	struct nodes *nodes = owner;

	nodes->seen = false;
	nodes->version = 0; /* it may be of another history */
}

static void on_listed(void *owner)
{
	const struct nodes *nodes = owner;

	if (!nodes->seen)
		log_warning("node.unknown",
			    "node=%s reason=\"the API server knows no such node: see node-name in "
			    "mete-config(5)\"",
			    nodes->plugin->node);
}

/* Its last state is kept: it may return. */
static void on_gone(void *owner, const cJSON *object)
{
	(void)owner;
	(void)object;
}

/* Later the watch on pods reports the same. */
static void on_troubled(void *owner, const char *problem)
{
	const struct nodes *nodes = owner;

	if (problem && !nodes->plugin->settled)
		log_warning("api.troubled", "reason=%s", log_text(problem).text);
}

int nodes_open(struct plugin *p, struct nodes **ret_nodes, struct fault *why)
{
	static const struct api_watcher watcher = {on_begins, on_seen, on_gone, on_listed,
						   on_troubled};
	struct nodes *nodes = calloc(1, sizeof(*nodes));
	char path[400];
	int r;

	if (!nodes)
		return fault_set(why, -ENOMEM, "out of memory");
	nodes->plugin = p;
	r = loop_timer_init(p->host->loop, &nodes->again, on_again);
	if (r < 0) {
		free(nodes);
		return fault_set(why, r, "no timer");
	}
	snprintf(path, sizeof(path), "/api/v1/nodes?fieldSelector=metadata.name%%3D%s", p->node);
	r = api_watch_open(p->api, path, &watcher, nodes, &nodes->watch);
	if (r < 0) {
		nodes_close(nodes);
		return fault_set(why, r, "node %s: %s", p->node, strerror(-r));
	}
	*ret_nodes = nodes;
	return 0;
}

/* Removes only our mark: another owner of the node has a mark in the same place. "/" is written
 * "~1" there, and a domain has neither. NULL: out of memory. */
static char *leave_text(const struct plugin *p)
{
	owned(cJSON_Delete) cJSON *tree = cJSON_CreateArray();
	char path[CONFIG_NAME_MAX + 48];

	snprintf(path, sizeof(path), "/metadata/annotations/%s~1owner", p->config->domain);
	for (int i = 0; i < 2; i++) {
		cJSON *step = cJSON_CreateObject();

		if (!cJSON_AddItemToArray(tree, step)) {
			cJSON_Delete(step);
			return NULL;
		}
		if (!cJSON_AddStringToObject(step, "op", i ? "remove" : "test") ||
		    !cJSON_AddStringToObject(step, "path", path) ||
		    (!i && !cJSON_AddStringToObject(step, "value", p->config->resource)))
			return NULL;
	}
	return cJSON_PrintUnformatted(tree);
}

bool nodes_leave(const struct nodes *nodes,
		 void (*left)(void *owner, int status, const char *problem, const cJSON *object))
{
	struct plugin *p = nodes ? nodes->plugin : NULL;
	struct api_request request = {.verb = "PATCH",
				      .content = "application/json-patch+json",
				      .within_ns = LEAVE_S * 1000000000ull};
	owned(free) char *body = NULL;
	struct api_asked *asked;
	char path[400];

	if (!p || !p->config || (!nodes->written && strcmp(nodes->owner, p->config->resource) != 0))
		return false;
	snprintf(path, sizeof(path), "/api/v1/nodes/%s/status", p->node);
	request.path = path;
	request.body = body = leave_text(p);
	return body && api_ask(p->api, &request, left, p, &asked) == 0;
}

static void on_again_closed(struct loop_timer *timer)
{
	free(container_of(timer, struct nodes, again));
}

void nodes_close(struct nodes *nodes)
{
	if (!nodes)
		return;
	if (nodes->watch)
		api_watch_close(nodes->watch);
	if (nodes->asked)
		api_forget(nodes->asked);
	cJSON_Delete(nodes->labels);
	features_rival_done(&nodes->rival);
	loop_timer_close(&nodes->again, on_again_closed);
}
