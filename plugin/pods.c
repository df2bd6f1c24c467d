/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/pods.h"

#include <string.h>

#include "kube/json.h"
#include "plugin/kubelet/ids.h"

enum { PARTS = 256 };

struct pods {
	struct api_watch *watch;
	struct pods_owner owner;
	struct amounts_names names;
	struct list pods;
	struct list by_uid[PARTS], by_mirrored[PARTS];
	bool known;
	uint64_t gone;
};

bool pods_known(const struct pods *pods)
{
	return pods->known;
}

static void free_containers(struct pod *pod)
{
	for (size_t i = 0; i < pod->container_count; i++)
		free(pod->containers[i]);
	free(take(pod->containers));
	free(take(pod->amounts));
	free(take(pod->inits));
	pod->container_count = 0;
}

static void free_pod(struct pod *pod)
{
	list_remove(&pod->link);
	list_remove(&pod->of_uid);
	list_remove(&pod->of_mirrored);
	free_containers(pod);
	free(pod->namespace);
	free(pod->name);
	free(pod->uid);
	cJSON_Delete(pod->annotations);
	cJSON_Delete(pod->claims);
	free(pod->mirrored);
	free(pod);
}

const struct pod *pods_find(const struct pods *pods, const char *namespace, const char *name)
{
	const struct pod *last = NULL;

	list_for_each(link, (struct list *)&pods->pods)
	{
		const struct pod *pod = list_entry(link, struct pod, link);

		if (strcmp(pod->name, name) == 0 && strcmp(pod->namespace, namespace) == 0)
			last = pod;
	}
	return last;
}

void pods_each(const struct pods *pods, void (*seen)(void *owner, const struct pod *pod),
	       void *owner)
{
	list_for_each(link, (struct list *)&pods->pods)
	{
		const struct pod *pod = list_entry(link, struct pod, link);

		if (!pod->over && !pod->gone)
			seen(owner, pod);
	}
}

static struct pod *find_own_uid(const struct pods *pods, const char *uid)
{
	list_for_each(link, (struct list *)&pods->by_uid[ids_hash(uid) % PARTS])
	{
		struct pod *pod = list_entry(link, struct pod, of_uid);

		if (strcmp(pod->uid, uid) == 0)
			return pod;
	}
	return NULL;
}

/* Anybody can write the annotation that marks a mirror of a static pod, so a pod's own UID has
 * precedence. */
const struct pod *pods_find_uid(const struct pods *pods, const char *uid)
{
	const struct pod *own = find_own_uid(pods, uid);

	if (own)
		return own;
	list_for_each(link, (struct list *)&pods->by_mirrored[ids_hash(uid) % PARTS])
	{
		const struct pod *pod = list_entry(link, struct pod, of_mirrored);

		if (strcmp(pod->mirrored, uid) == 0)
			return pod;
	}
	return NULL;
}

/* A static pod is the kubelet's own; the API server shows its mirror, with another UID. */
static int read_annotations(struct pods *pods, struct pod *pod, const cJSON *meta)
{
	const cJSON *now = cJSON_GetObjectItemCaseSensitive(meta, "annotations");
	const char *mirrored = json_text(now, "kubernetes.io/config.mirror");
	cJSON *copy = now ? cJSON_Duplicate(now, true) : NULL;

	if (now && !copy)
		return -ENOMEM;
	cJSON_Delete(pod->annotations);
	pod->annotations = copy;
	free(pod->mirrored);
	list_remove(&pod->of_mirrored);
	pod->mirrored = mirrored ? strdup(mirrored) : NULL;
	if (pod->mirrored)
		list_append(&pods->by_mirrored[ids_hash(mirrored) % PARTS], &pod->of_mirrored);
	return 0;
}

/* An init container that is restarted runs beside the others: it is a sidecar. */
static bool is_sidecar(const cJSON *container)
{
	const char *policy = json_text(container, "restartPolicy");

	return policy && strcmp(policy, "Always") == 0;
}

static int read_claims(struct pod *pod, const cJSON *object)
{
	cJSON *names = pods_claims(object);

	if (!names)
		return -ENOMEM;
	cJSON_Delete(pod->claims);
	pod->claims = names;
	return 0;
}

static int add_containers(const struct pods *pods, struct pod *pod, const cJSON *list,
			  bool are_init)
{
	struct amounts_said *said;
	const cJSON *item;

	cJSON_ArrayForEach(item, list)
	{
		const char *name = json_text(item, "name");

		if (!name)
			continue;
		pod->containers[pod->container_count] = strdup(name);
		if (!pod->containers[pod->container_count])
			return -ENOMEM;
		said = &pod->amounts[pod->container_count];
		amounts_take(item, &pods->names, said);
		if (are_init)
			said->kind = is_sidecar(item) ? PLACEMENT_SIDECAR : PLACEMENT_INIT;
		pod->inits[pod->container_count++] = said->kind == PLACEMENT_INIT;
	}
	return 0;
}

static int32_t read_priority(const cJSON *spec)
{
	const cJSON *priority = cJSON_GetObjectItemCaseSensitive(spec, "priority");

	return cJSON_IsNumber(priority) ? priority->valueint : 0;
}

/* Ephemeral containers, for debugging, are added later and have no devices. */
static int read_containers(const struct pods *pods, struct pod *pod, const cJSON *spec)
{
	const cJSON *usual = cJSON_GetObjectItemCaseSensitive(spec, "containers");
	const cJSON *init = cJSON_GetObjectItemCaseSensitive(spec, "initContainers");
	size_t most = (size_t)cJSON_GetArraySize(usual) + (size_t)cJSON_GetArraySize(init);
	int r;

	if (pod->container_count)
		return 0; /* they never change */
	pod->containers = calloc(most + 1, sizeof(*pod->containers));
	pod->amounts = calloc(most + 1, sizeof(*pod->amounts));
	pod->inits = calloc(most + 1, sizeof(*pod->inits));
	if (!pod->containers || !pod->amounts || !pod->inits)
		return -ENOMEM;
	pod->priority = read_priority(spec);
	r = add_containers(pods, pod, usual, false);
	/* In their order: what starts before a sidecar does not run beside it. */
	if (r == 0)
		r = add_containers(pods, pod, init, true);
	/* A partial list would turn the other containers' names into mistakes. */
	if (r < 0 || !pod->container_count)
		free_containers(pod);
	return r;
}

static struct pod *make_pod(struct pods *pods, const cJSON *meta)
{
	struct pod *pod = calloc(1, sizeof(*pod));

	if (!pod)
		return NULL;
	list_append(&pods->pods, &pod->link);
	pod->namespace = strdup(json_text(meta, "namespace"));
	pod->name = strdup(json_text(meta, "name"));
	pod->uid = strdup(json_text(meta, "uid"));
	if (pod->namespace && pod->name && pod->uid) {
		list_append(&pods->by_uid[ids_hash(pod->uid) % PARTS], &pod->of_uid);
		return pod;
	}
	free_pod(pod);
	return NULL;
}

static struct pod *known(struct pods *pods, const cJSON *meta)
{
	const char *uid = json_text(meta, "uid");

	if (!uid || !json_text(meta, "name") || !json_text(meta, "namespace"))
		return NULL;
	return find_own_uid(pods, uid);
}

static void on_begins(void *owner)
{
	struct pods *pods = owner;

	list_for_each(link, &pods->pods) list_entry(link, struct pod, link)->seen = false;
}

static void on_seen(void *owner, const cJSON *object)
{
	const cJSON *meta = cJSON_GetObjectItemCaseSensitive(object, "metadata");
	const cJSON *status = cJSON_GetObjectItemCaseSensitive(object, "status");
	const char *phase = json_text(status, "phase");
	struct pods *pods = owner;
	struct pod *pod = known(pods, meta);
	bool fresh = !pod;

	if (!pod && json_text(meta, "uid") && json_text(meta, "name") &&
	    json_text(meta, "namespace"))
		pod = make_pod(pods, meta);
	if (!pod)
		return; /* out of memory, or not a pod: the next event about it tries again */
	if (read_annotations(pods, pod, meta) < 0 || read_claims(pod, object) < 0 ||
	    read_containers(pods, pod, cJSON_GetObjectItemCaseSensitive(object, "spec")) < 0) {
		if (fresh)
			free_pod(pod);
		return;
	}
	pod->over = phase && (strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0);
	pod->ending = json_text(meta, "deletionTimestamp") != NULL;
	pod->seen = true;
	if (pod->over)
		pods->owner.gone(pods->owner.owner, pod);
	else
		pods->owner.changed(pods->owner.owner, pod);
}

static void lose(struct pods *pods, struct pod *pod)
{
	pod->gone = true;
	pods->gone++;
	pods->owner.gone(pods->owner.owner, pod);
	free_pod(pod);
}

void pods_learn(struct pods *pods, const cJSON *object)
{
	if (!known(pods, cJSON_GetObjectItemCaseSensitive(object, "metadata")))
		on_seen(pods, object);
}

uint64_t pods_gone(const struct pods *pods)
{
	return pods->gone;
}

static void on_gone(void *owner, const cJSON *object)
{
	struct pods *pods = owner;
	struct pod *pod = known(pods, cJSON_GetObjectItemCaseSensitive(object, "metadata"));

	if (pod)
		lose(pods, pod);
}

static void on_listed(void *owner)
{
	struct pods *pods = owner;

	list_for_each(link, &pods->pods)
	{
		struct pod *pod = list_entry(link, struct pod, link);

		if (!pod->seen)
			lose(pods, pod);
	}
	pods->known = true;
	pods->owner.listed(pods->owner.owner);
}

static void on_troubled(void *owner, const char *problem)
{
	struct pods *pods = owner;

	pods->owner.troubled(pods->owner.owner, problem);
}

int pods_open(struct api *api, const char *node, const struct amounts_names *names,
	      const struct pods_owner *owner, struct pods **ret_pods)
{
	static const struct api_watcher watcher = {on_begins, on_seen, on_gone, on_listed,
						   on_troubled};
	struct pods *pods = calloc(1, sizeof(*pods));
	char path[512];
	int r;

	if (!pods)
		return -ENOMEM;
	pods->owner = *owner;
	pods->names = *names;
	list_init(&pods->pods);
	for (size_t i = 0; i < PARTS; i++) {
		list_init(&pods->by_uid[i]);
		list_init(&pods->by_mirrored[i]);
	}
	snprintf(path, sizeof(path), "/api/v1/pods?fieldSelector=spec.nodeName%%3D%s", node);
	r = api_watch_open(api, path, &watcher, pods, &pods->watch);
	if (r < 0) {
		free(pods);
		return r;
	}
	*ret_pods = pods;
	return 0;
}

void pods_close(struct pods *pods)
{
	if (!pods)
		return;
	api_watch_close(pods->watch);
	list_for_each(link, &pods->pods) free_pod(list_entry(link, struct pod, link));
	free(pods);
}
