/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kubernetes events, which `kubectl describe` shows for a pod or this node. They are sent and
 * forgotten: the answer of the API server is not checked, and only a few are in progress at a time.
 */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/least.h"
#include "kube/json.h"
#include "plugin/kubelet/ids.h"
#include "plugin/plugin.h"

enum {
	UNDER_WAY_MOST = 16,
	/* Of a pod: each change of its annotations can cause one. */
	POD_MOST = 8,
	POD_EVERY_S = 10,   /* after that, one in this time */
	PAIR_EVERY_S = 600, /* what comes and goes may do so all day */
};

struct event {
	struct list link;
	struct plugin *plugin;
	struct api_asked *asked;
};

/* The object of the event. */
struct subject {
	const char *kind, *in, *name, *uid; /* in: its namespace; NULL: none */
};

struct news {
	const char *reason, *message;
	bool good;     /* nothing needs to be done */
	uint64_t once; /* its name: the API server takes no second one of it; 0: any */
};

static void done(struct event *e)
{
	list_remove(&e->link);
	e->plugin->events_under_way--;
	free(e);
}

static void on_answered(void *owner, int status, const char *problem, const cJSON *object)
{
	(void)object;
	if (problem)
		log_debug("event.lost", "status=%d reason=%s", status, log_text(problem).text);
	done(owner);
}

static bool add_about(cJSON *tree, const struct subject *about)
{
	cJSON *object = cJSON_AddObjectToObject(tree, "involvedObject");

	return object && cJSON_AddStringToObject(object, "apiVersion", "v1") &&
	       cJSON_AddStringToObject(object, "kind", about->kind) &&
	       (!about->in || cJSON_AddStringToObject(object, "namespace", about->in)) &&
	       cJSON_AddStringToObject(object, "name", about->name) &&
	       cJSON_AddStringToObject(object, "uid", about->uid);
}

static bool add_name(cJSON *meta, uint64_t once)
{
	char name[32];

	snprintf(name, sizeof(name), "mete-%016llx", (unsigned long long)once);
	return meta &&
	       cJSON_AddStringToObject(meta, once ? "name" : "generateName", once ? name : "mete-");
}

static bool add_heads(cJSON *tree, const struct plugin *p, const struct subject *about,
		      uint64_t once)
{
	cJSON *meta = cJSON_AddObjectToObject(tree, "metadata");
	cJSON *source = cJSON_AddObjectToObject(tree, "source");

	return add_name(meta, once) && source &&
	       cJSON_AddStringToObject(meta, "namespace", about->in ? about->in : "default") &&
	       cJSON_AddStringToObject(source, "component", "mete") &&
	       cJSON_AddStringToObject(source, "host", p->node);
}

/* NULL: out of memory. */
static char *describe(const struct plugin *p, const struct subject *about, const struct news *news)
{
	owned(cJSON_Delete) cJSON *tree = cJSON_CreateObject();
	time_t now = time(NULL);
	char when[32];
	struct tm utc;

	gmtime_r(&now, &utc);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &utc);
	if (tree && add_heads(tree, p, about, news->once) && add_about(tree, about) &&
	    cJSON_AddStringToObject(tree, "reason", news->reason) &&
	    cJSON_AddStringToObject(tree, "message", news->message) &&
	    cJSON_AddStringToObject(tree, "type", news->good ? "Normal" : "Warning") &&
	    cJSON_AddStringToObject(tree, "firstTimestamp", when) &&
	    cJSON_AddStringToObject(tree, "lastTimestamp", when) &&
	    cJSON_AddNumberToObject(tree, "count", 1))
		return cJSON_PrintUnformatted(tree);
	return NULL;
}

static void post(struct plugin *p, const struct subject *about, const struct news *news)
{
	owned(free) char *body = describe(p, about, news);
	struct event *e = body ? calloc(1, sizeof(*e)) : NULL;
	char path[400];
	struct api_request request = {.verb = "POST", .path = path, .body = body};

	if (!e)
		return;
	snprintf(path, sizeof(path), "/api/v1/namespaces/%s/events",
		 about->in ? about->in : "default");
	e->plugin = p;
	list_append(&p->events, &e->link);
	p->events_under_way++;
	if (api_ask(p->api, &request, on_answered, e, &e->asked) < 0)
		done(e);
}

static bool may_say(const struct plugin *p)
{
	return p->api && p->events_under_way < UNDER_WAY_MOST;
}

/* All pods of a node are remembered: two that shared a place would reset each other's rate. */
static struct events_rate *rate_of(struct plugin *p, const char *uid)
{
	struct events_rate *rate = p->events_rate, *oldest = rate;
	uint64_t whose = ids_hash(uid), now = loop_now_ns();

	for (; rate < p->events_rate + EVENTS_RATES && rate->whose != whose; rate++)
		if (rate->asked_ns < oldest->asked_ns)
			oldest = rate;
	if (rate == p->events_rate + EVENTS_RATES) {
		rate = oldest;
		*rate = (struct events_rate){.whose = whose, .since_ns = now};
	}
	rate->asked_ns = now;
	return rate;
}

static bool may_say_of(struct plugin *p, const char *uid)
{
	uint64_t now = loop_now_ns(), every = POD_EVERY_S * 1000000000ull;
	struct events_rate *rate;

	if (!may_say(p))
		return false;
	rate = rate_of(p, uid);
	for (; rate->spent && now - rate->since_ns >= every; rate->since_ns += every)
		rate->spent--;
	if (!rate->spent)
		rate->since_ns = now;
	if (rate->spent == POD_MOST)
		return false;
	rate->spent++;
	return true;
}

bool events_container(struct plugin *p, const struct binding *b, const char *reason,
		      const char *message)
{
	const struct subject pod = {"Pod", b->namespace, b->pod, b->uid};
	const struct news news = {.reason = reason, .message = message};

	if (!p->api || !*b->uid)
		return true; /* there is no API server */
	if (!may_say_of(p, b->uid))
		return false;
	post(p, &pod, &news);
	return true;
}

void events_pod(struct plugin *p, const struct pod *of, const char *reason, const char *message)
{
	const struct subject pod = {"Pod", of->namespace, of->name, of->uid};
	const struct news news = {.reason = reason, .message = message};

	if (may_say_of(p, of->uid))
		post(p, &pod, &news);
}

bool events_may_begin(struct plugin *p, const struct pod *of)
{
	const struct events_rate *rate;

	/* Its sentences are made of all devices' figures: not at each look in vain. */
	if (!may_say(p))
		return false;
	rate = rate_of(p, of->uid);
	return !rate->paired_ns || loop_now_ns() - rate->paired_ns >= PAIR_EVERY_S * 1000000000ull;
}

bool events_begin(struct plugin *p, const struct pod *of, uint32_t tenant, const char *reason,
		  const char *message)
{
	struct events_rate *rate = rate_of(p, of->uid);

	if (!events_may_begin(p, of) || !may_say_of(p, of->uid))
		return false;
	rate->paired_ns = loop_now_ns();
	rate->pair = tenant;
	post(p, &(struct subject){"Pod", of->namespace, of->name, of->uid},
	     &(struct news){.reason = reason, .message = message});
	return true;
}

void events_begun(struct plugin *p, const struct pod *of, uint64_t at_ns)
{
	struct events_rate *rate = at_ns ? rate_of(p, of->uid) : NULL;

	if (rate)
		rate->paired_ns = most(rate->paired_ns, at_ns);
}

static bool has_ended(const struct events_rate *rate, uint64_t before_ns)
{
	for (uint32_t i = 0; i < EVENTS_ENDS; i++)
		if (rate->ended_ns[i] == before_ns)
			return true;
	return false;
}

/* Of the pod and the wait: the next meted has the same. */
static uint64_t name_end(const struct pod *of, uint64_t before_ns)
{
	char text[128];

	snprintf(text, sizeof(text), "%.80s %" PRIu64, of->uid, before_ns);
	return most(ids_hash(text), 1);
}

bool events_over(struct plugin *p, const struct pod *of, uint32_t tenant, uint64_t before_ns,
		 bool good, const char *reason, const char *message)
{
	struct events_rate *rate = rate_of(p, of->uid);

	/* Of several pods one may have been told when others could not be. */
	if (before_ns ? has_ended(rate, before_ns) : rate->pair != tenant)
		return true;
	if (!may_say_of(p, of->uid))
		return false;
	if (before_ns)
		rate->ended_ns[rate->ends++ % EVENTS_ENDS] = before_ns;
	else
		rate->pair = 0;
	post(p, &(struct subject){"Pod", of->namespace, of->name, of->uid},
	     &(struct news){reason, message, good, before_ns ? name_end(of, before_ns) : 0});
	return true;
}

static void tell_node(struct plugin *p, const struct news *news)
{
	/* The UID is the name, as in the kubelet's own events of its node. */
	const struct subject node = {"Node", NULL, p->node, p->node};

	if (may_say(p))
		post(p, &node, news);
}

void events_node(struct plugin *p, const char *reason, const char *message)
{
	tell_node(p, &(struct news){.reason = reason, .message = message});
}

void events_node_well(struct plugin *p, const char *reason, const char *message)
{
	tell_node(p, &(struct news){.reason = reason, .message = message, .good = true});
}

void events_close(struct plugin *p)
{
	list_for_each(link, &p->events)
	{
		struct event *e = list_entry(link, struct event, link);

		api_forget(e->asked);
		done(e);
	}
}
