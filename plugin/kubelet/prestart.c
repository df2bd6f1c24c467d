/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubelet tells which ids a container has, but not which container it is. It calls
 * PreStartContainer with the ids before each start of the container. meted asks the kubelet for the
 * holder of the ids (pod-resources), looks up the pod among those that the API server has reported,
 * and creates the tenant that its annotations request. Names of pods are reused (StatefulSets): if
 * the kubelet's checkpoint can be read, the pod's UID decides.
 *
 * Init containers have the ids of the containers that follow them, and no share of their own: the
 * records name any of those that have the ids.
 */
#include <string.h>

#include "kube/proto/deviceplugin.pb-c.h"
#include "plugin/kubelet/allocated.h"
#include "plugin/kubelet/ids_owner.h"
#include "plugin/mps/mps.h"
#include "plugin/plugin.h"
#include "plugin/sums/seats.h"

enum {
	WAIT_S = 20, /* for kubelet and API server to identify it; the kubelet waits for 30 */
	AGAIN_MS = 100,
};

/* A container that is about to start. */
struct asking {
	struct list link; /* not linked: it has been answered */
	struct plugin *plugin;
	struct grpc_call *call;
	struct binding *binding; /* its result; its ids are the requested ones */
	struct resources_ask ask;
	struct loop_timer timer;
	uint64_t until_ns;
	bool listed;			   /* the holder of the ids is known: */
	char *namespace, *pod, *container; /* NULL: not in the kubelet's answer */
	char uid[IDS_OWNER_TEXT];	   /* "": the checkpoint does not tell */
	char *problem;			   /* the reason to wait */
};

static void on_timer_closed(struct loop_timer *timer)
{
	struct asking *a = container_of(timer, struct asking, timer);

	binding_free(a->binding);
	free(a->namespace);
	free(a->pod);
	free(a->container);
	free(a->problem);
	free(a);
}

static void leave(struct asking *a)
{
	list_remove(&a->link);
	mps_follow(a->plugin->mps);
	resources_forget(&a->ask);
	loop_timer_close(&a->timer, on_timer_closed);
}

static void refuse(struct asking *a, const char *sentence)
{
	struct plugin *p = a->plugin;

	p->refused++;
	log_warning("container.refused", "pod=%s/%s container=%s reason=%s",
		    a->namespace ? a->namespace : "", a->pod ? a->pod : "",
		    a->container ? a->container : "", log_text(sentence).text);
	grpc_end(a->call, GRPC_FAILED_PRECONDITION, sentence);
	leave(a);
}

static void remember(struct asking *a, const char *problem)
{
	char *text = strdup(problem);

	if (text) {
		free(a->problem);
		a->problem = text;
	}
}

/* Nothing needs to be done before `within_ns`, or before its time is over. */
static void rest(struct asking *a, uint64_t within_ns)
{
	uint64_t now = loop_now_ns(), left = a->until_ns > now ? a->until_ns - now : 0;

	loop_arm(&a->timer, within_ns < left ? within_ns : left);
}

static char *copy_or_empty(const char *text)
{
	return strdup(text ? text : "");
}

static int name_binding(const struct asking *a, const struct pod *pod)
{
	struct binding *b = a->binding;

	b->namespace = copy_or_empty(pod ? pod->namespace : a->namespace);
	b->pod = copy_or_empty(pod ? pod->name : a->pod);
	b->is_static = pod && pod->mirrored && strcmp(pod->mirrored, a->uid) == 0;
	/* The mirror may be deleted and recreated, with another UID, while the pod goes on. */
	b->uid = copy_or_empty(pod && !b->is_static ? pod->uid : a->uid);
	b->container = copy_or_empty(a->container);
	return b->namespace && b->pod && b->uid && b->container ? 0 : -ENOMEM;
}

/* A pod's status shows what was refused. Once it does, the container is kept here, and starts at
 * once when there is room. Work that is under way for the container needs no refusal. */
static bool waits_for(int r, struct plugin *p, const struct binding *b)
{
	return r == -EINPROGRESS || (r == -EAGAIN && !seats_say(p, b));
}

static void prestart_as(struct asking *a, const struct pod *pod)
{
	struct plugin *p = a->plugin;
	struct binding *b = a->binding;
	struct fault why;
	int r;

	r = b->container ? 0 : name_binding(a, pod);
	r = r == 0 ? containers_make(p, b, pod, &why) : fault_set(&why, r, "out of memory");
	/* To wait would also keep a pod that is being deleted. */
	if (waits_for(r, p, b) && !(pod && pod->ending)) {
		remember(a, why.text);
		return;
	}
	if (r < 0) {
		refuse(a, why.text);
		return;
	}
	a->binding = NULL; /* it is in the table */
	best_effort(grpc_send(a->call, (struct grpc_bytes){0}, false));
	grpc_end(a->call, GRPC_OK, NULL);
	leave(a);
}

/* The kubelet knows a pod by its UID and reports its name: both must match. */
static const struct pod *find_pod(const struct asking *a)
{
	const struct pods *pods = a->plugin->pods;
	const struct pod *pod = NULL;

	if (*a->uid)
		pod = pods_find_uid(pods, a->uid);
	else if (a->pod)
		pod = pods_find(pods, a->namespace, a->pod);
	if (!pod || pod->over)
		return NULL;
	if (a->pod && (strcmp(pod->name, a->pod) != 0 || strcmp(pod->namespace, a->namespace) != 0))
		return NULL;
	return pod;
}

/* Identifies the container, as far as is known by now. */
static void consider(struct asking *a)
{
	const struct plugin *p = a->plugin;
	const struct pod *pod;
	struct fault problem;

	if (!a->listed)
		return;
	if (!p->pods) {
		prestart_as(a, NULL);
		return;
	}
	pod = find_pod(a);
	if (pod) {
		prestart_as(a, pod);
		return;
	}
	fault_set(&problem, -EAGAIN, "the API server has not reported pod %s/%s (%s)%s%s",
		  a->namespace ? a->namespace : "?", a->pod ? a->pod : "?",
		  *a->uid ? a->uid : "UID unknown", p->api_problem ? ": " : "",
		  p->api_problem ? p->api_problem : "");
	remember(a, problem.text);
}

bool prestart_asks(const struct plugin *p, const char *key)
{
	list_for_each(link, (struct list *)&p->asking)
	{
		const struct asking *a = list_entry(link, struct asking, link);

		if (a->binding && strcmp(a->binding->key, key) == 0)
			return true;
	}
	return false;
}

void prestart_consider(struct plugin *p)
{
	list_for_each(link, &p->asking) consider(list_entry(link, struct asking, link));
}

/* Asks the kubelet again until the container's time is over. */
static void wait_for(struct asking *a, const char *problem)
{
	remember(a, problem);
	rest(a, AGAIN_MS * 1000000ull);
}

static void take_holder(struct asking *a, const struct resources_found *found,
			const struct ids_owner *holder)
{
	if (found) {
		a->namespace = strdup(found->namespace);
		a->pod = strdup(found->pod);
	}
	snprintf(a->uid, sizeof(a->uid), "%s", holder->uid);
	a->container = strdup(found ? found->container : holder->container);
	if (!a->container || (found && (!a->namespace || !a->pod))) {
		refuse(a, "out of memory");
		return;
	}
	a->listed = true;
	rest(a, UINT64_MAX);
	consider(a);
}

static void on_holders(struct resources_ask *ask, const char *problem,
		       const struct resources_found *found, size_t count)
{
	struct asking *a = container_of(ask, struct asking, ask);
	struct ids_owner holder =
		ids_owner_find(a->plugin, a->binding->resource, ask->ids, ask->count);

	if (holder.pods > 1 || (count > 1 && !holder.pods))
		wait_for(a, "the kubelet says that several pods have these ids");
	else if (!count && !holder.pods)
		wait_for(a, problem ? problem
				    : "the kubelet does not say which container has these ids");
	else
		/* Of two pods with the same ids one is ending: the checkpoint has only the other
		 * one. */
		take_holder(a, count == 1 ? found : NULL, &holder);
}

static void on_due(struct loop_timer *timer)
{
	struct asking *a = container_of(timer, struct asking, timer);

	if (!list_linked(&a->link))
		return;
	if (loop_now_ns() >= a->until_ns) {
		refuse(a, a->problem ? a->problem
				     : "nothing says which pod this container belongs to");
		return;
	}
	if (!a->listed && !list_linked(&a->ask.link))
		resources_want(a->plugin->resources, &a->ask);
	rest(a, UINT64_MAX);
}

/* True for a container that began before the device changed to MPS, and starts again. No other
 * container is given such a device. */
static bool is_from_before(const struct plugin *p, const char *const *ids, size_t count)
{
	int device = count ? allocated_device(p, ids[0]) : -1;

	return device >= 0 && mps_waits(p->mps, (uint32_t)device);
}

void prestart_asked(struct plugin *p, struct grpc_call *call, const char *const *ids, size_t count)
{
	struct asking *a = NULL;

	/* Without tenants the kubelet was told not to call. */
	if (!config_has_tenants(p->config)) {
		grpc_end(call, GRPC_UNIMPLEMENTED, "containers are not prepared here");
		return;
	}
	if (is_from_before(p, ids, count)) {
		static const V1beta1__PreStartContainerResponse nothing =
			V1BETA1__PRE_START_CONTAINER_RESPONSE__INIT;

		serve_answer(call, &nothing.base);
		return;
	}
	a = count && count <= IDS_MAX ? calloc(1, sizeof(*a)) : NULL;
	if (!a || binding_make(p->config->resource, ids, count, &a->binding) < 0 ||
	    loop_timer_init(p->host->loop, &a->timer, on_due) < 0) {
		grpc_end(call, a ? GRPC_RESOURCE_EXHAUSTED : GRPC_INVALID_ARGUMENT,
			 a ? "out of memory" : "accepted: the ids of one container");
		if (a)
			binding_free(a->binding);
		free(a);
		return;
	}
	a->plugin = p;
	a->call = call;
	grpc_call_keep(call, a);
	a->until_ns = loop_now_ns() + WAIT_S * 1000000000ull;
	a->ask = (struct resources_ask){.answered = on_holders,
					.resource = a->binding->resource,
					.ids = (const char *const *)a->binding->ids,
					.count = count};
	list_append(&p->asking, &a->link);
	rest(a, UINT64_MAX);
	resources_want(p->resources, &a->ask);
}

void prestart_gone(struct grpc_call *call)
{
	leave(grpc_call_kept(call));
}

void prestart_abandon(struct plugin *p)
{
	list_for_each(link, &p->asking)
	{
		struct asking *a = list_entry(link, struct asking, link);

		grpc_end(a->call, GRPC_UNAVAILABLE, "meted is stopping");
		leave(a);
	}
}
