/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers that are bound: each is a tenant, a folder, a CDI file and a record. They follow the
 * annotations of their pod while it runs, and end with it.
 *
 * The steps when one begins, in order: the tenant, the link, the CDI file, the record, and then the
 * end of the tenant that had the ids before. If meted is killed in between, it leaves a tenant or a
 * link without a record. The next start ends the tenant before anybody is given its room
 * (host.kept_all()), and removes the link (containers_open()).
 */
#include <string.h>

#include "base/text.h"
#include "plugin/dra/dra.h"
#include "plugin/mps/mps.h"
#include "plugin/nvidia/parts.h"
#include "plugin/plugin.h"
#include "plugin/slots.h"
#include "plugin/sums/seats.h"

static void drop(struct plugin *p, struct binding *b)
{
	log_info("container.gone", "pod=%s/%s container=%s tenant=%u slot=%s", b->namespace, b->pod,
		 b->container, b->tenant, b->key);
	p->host->end(p->host->daemon, b->tenant);
	slots_remove(p, b);
	seats_unbound(p, b);
	binding_store_drop(&p->bindings, b);
	mps_follow(p->mps);
}

/* A tenant's limit of memory applies to each device, as do its other fields. */
static int make_tenant(struct plugin *p, struct binding *b, struct fault *why)
{
	struct host_tenant spec = {.devices = b->devices};
	char name[256];

	memcpy(spec.device, b->device, sizeof(spec.device));
	for (size_t i = 0; i < SHARE_FIELDS; i++)
		spec.texts[i] = b->texts[i];
	snprintf(name, sizeof(name), "%s/%s/%s", b->namespace, b->pod, b->container);
	spec.name = name;
	return p->host->make(p->host->daemon, &spec, &b->tenant, b->folder, why);
}

bool containers_is_foreign(const struct plugin *p, const struct binding *b)
{
	return strcmp(b->resource, p->config->resource) != 0;
}

static bool has(const struct binding *b, const char *id)
{
	for (uint32_t i = 0; i < b->count; i++)
		if (strcmp(b->ids[i], id) == 0)
			return true;
	return false;
}

/* The same container with other ids: a kubelet that has lost its record gives it new ones. */
static bool is_same_container(const struct binding *a, const struct binding *b)
{
	return a != b && *a->uid && strcmp(a->uid, b->uid) == 0 &&
	       strcmp(a->container, b->container) == 0;
}

/* The kubelet gives an id to one container at a time. Another container that had one has ended,
 * though its end has not been reported yet; or it is an init container, which had more ids than
 * its successor. */
static void drop_former(struct plugin *p, const struct binding *now)
{
	list_for_each(link, &p->bindings.all)
	{
		struct binding *b = list_entry(link, struct binding, link);
		bool overlaps = is_same_container(b, now);

		if (strcmp(b->resource, now->resource) != 0)
			continue;
		for (uint32_t i = 0; b != now && i < now->count && !overlaps; i++)
			overlaps = has(b, now->ids[i]);
		if (overlaps)
			drop(p, b);
	}
}

static int put_in_force(struct plugin *p, struct binding *b, struct fault *why)
{
	const struct binding *was = binding_store_find(&p->bindings, b->key);
	uint32_t former = was ? was->tenant : 0;
	struct fault again;
	int r = make_tenant(p, b, why);

	if (r < 0)
		return r;
	r = slots_make(p, b, why);
	if (r == 0)
		slots_replace(was, b);
	if (r == 0)
		r = binding_store_put(&p->bindings, b, p->host, why);
	if (r < 0) {
		p->host->end(p->host->daemon, b->tenant);
		if (!was)
			slots_remove(p, b);
		else if (slots_make(p, was, &again) < 0)
			log_warning("slot.unwritten", "slot=%s reason=%s", b->key,
				    log_text(again.text).text);
		return r;
	}
	/* The former container has ended, or is being ended; its processes keep their memory
	 * until then. */
	if (former)
		p->host->end(p->host->daemon, former);
	drop_former(p, b);
	return 0;
}

int containers_make(struct plugin *p, struct binding *b, const struct pod *pod, struct fault *why)
{
	int r = entitled_devices(p, b, pod, why);

	if (r == 0)
		r = health_check(p, b, why);
	if (r == 0)
		r = mps_check(p->mps, b, why);
	if (r == 0)
		r = entitled_share(p, b, pod, false, b->texts, &b->exclusive, why);
	if (r == 0)
		r = neighbours_check(p, b, b->exclusive, why);
	if (r == 0 && slots_place(p, b, entitled_former(p, b)) < 0)
		r = fault_set(why, -ENOMEM, "out of memory");
	if (r == 0) {
		b->crowded = neighbours_crowded(p, b);
		r = put_in_force(p, b, why);
	}
	if (r < 0) {
		seats_stood_up(p, b);
		return r;
	}
	p->bound++;
	log_info("container.bound", "pod=%s/%s container=%s tenant=%u slot=%s", b->namespace,
		 b->pod, b->container, b->tenant, b->key);
	serve_changed(p); /* a withdrawn id returns while it is in use */
	seats_changed(p);
	return 0;
}

/* Reports a new sentence about a binding's annotations once; "": there is none any more. The last
 * of many is an event when the pod may have one again. */
static void complain(struct plugin *p, struct binding *b, const char *sentence)
{
	bool same = b->complaint && strcmp(b->complaint, sentence) == 0;

	if (same && !b->untold)
		return;
	if (!same) {
		free(b->complaint);
		b->complaint = *sentence ? strdup(sentence) : NULL;
	}
	if (!*sentence)
		return;
	if (!same)
		log_warning("container.unchanged", "pod=%s/%s container=%s reason=%s", b->namespace,
			    b->pod, b->container, log_text(sentence).text);
	b->untold = !events_container(p, b, "ShareUnchanged", sentence);
}

/* The record is written before the tenant has them. */
static int change(struct plugin *p, struct binding *b, char *const texts[SHARE_FIELDS],
		  struct fault *why)
{
	struct in_force share = {b->tenant, b->texts, &b->refusal};
	/* If meted was killed while it set them, it is unknown whether the tenant has them. */
	uint32_t fields = b->changing ? IN_FORCE_ALL : in_force_differing(&share, texts);
	int r = fields ? in_force_refused(&share, texts, why) : 0;

	if (!fields || r < 0)
		return r;
	b->changing = true;
	binding_store_rewrite(&p->bindings, b, p->host);
	r = in_force_set(p, &share, texts, fields, why);
	b->changing = false;
	binding_store_rewrite(&p->bindings, b, p->host);
	return r;
}

/* Makes it exclusive, or ends that. If that is impossible now, it may be possible when the others
 * have gone: it is tried again whenever something changes. */
static int be_alone(struct plugin *p, struct binding *b, bool exclusive, struct fault *why)
{
	int r = exclusive ? neighbours_check(p, b, true, why) : 0;

	if (r < 0)
		return r;
	b->exclusive = exclusive;
	binding_store_rewrite(&p->bindings, b, p->host);
	serve_changed(p);
	return 0;
}

static void follow(struct plugin *p, struct binding *b, const struct pod *pod)
{
	char *texts[SHARE_FIELDS] = {0};
	struct fault why, other;
	bool refused, exclusive = b->exclusive;
	int r;

	/* A file without `mete` has no shares: those of containers stay as they are. */
	if (!b->devices || b->absent || !config_has_tenants(p->config))
		return;
	r = entitled_share(p, b, pod, false, texts, &exclusive, &why);
	refused = r < 0;
	/* A running container goes on, with as much of its request as is allowed now. */
	if (refused)
		r = entitled_share(p, b, pod, true, texts, &exclusive, &other);
	if (r == 0)
		r = change(p, b, texts, refused ? &other : &why);
	if (r == 0 && exclusive != b->exclusive) {
		r = be_alone(p, b, exclusive, refused ? &other : &why);
		if (r < 0 && refused)
			r = 0; /* one sentence at a time */
	}
	b->crowded = neighbours_crowded(p, b);
	complain(p, b, refused || r < 0 ? why.text : "");
	entitled_free(texts);
}

/* A pod whose UID was unknown when it was bound is known by its name. */
static const struct pod *pod_of(const struct plugin *p, const struct binding *b)
{
	const struct pod *pod;

	if (!p->pods)
		return NULL;
	if (*b->uid && !b->is_static)
		return pods_find_uid(p->pods, b->uid);
	pod = pods_find(p->pods, b->namespace, b->pod);
	/* A pod of that name may have been made by anybody. */
	if (pod && b->is_static && (!pod->mirrored || strcmp(pod->mirrored, b->uid) != 0))
		return NULL;
	return pod;
}

/* The mirror of a static pod proves nothing: the pod outlives it. The kubelet is asked instead. */
static void lose(struct plugin *p, struct binding *b, const struct pod *pod)
{
	if (b->is_static && (!pod || !pod->over))
		sweep_ask(p, b);
	else
		drop(p, b);
}

void containers_refresh(struct plugin *p)
{
	list_for_each(link, &p->bindings.all)
	{
		struct binding *b = list_entry(link, struct binding, link);
		const struct pod *pod = pod_of(p, b);

		/* The requests of an unknown pod stay in force. */
		if (pod || !p->pods)
			follow(p, b, pod);
	}
}

static void on_pod_changed(void *owner, const struct pod *pod)
{
	struct plugin *p = owner;

	list_for_each(link, &p->bindings.all)
	{
		struct binding *b = list_entry(link, struct binding, link);

		const struct pod *own = pod_of(p, b);

		if (own && own == pod)
			follow(p, b, own);
	}
	dra_pod_changed(p->dra, pod);
	seats_changed(p);
	prestart_consider(p);
}

/* Requests that did not fit beside others may fit now. */
static void try_again(struct plugin *p)
{
	list_for_each(link, &p->bindings.all)
	{
		struct binding *b = list_entry(link, struct binding, link);
		const struct pod *pod = pod_of(p, b);

		if ((b->complaint || b->crowded) && (pod || !p->pods))
			follow(p, b, pod);
	}
}

void containers_look(struct plugin *p)
{
	bool matters = false;

	list_for_each(link, &p->bindings.all)
	{
		const struct binding *b = list_entry(link, struct binding, link);

		matters |= b->complaint || b->exclusive || b->crowded;
	}
	if (!matters)
		return;
	try_again(p);
	serve_changed(p);
}

static void on_pod_gone(void *owner, const struct pod *pod)
{
	struct plugin *p = owner;

	list_for_each(link, &p->bindings.all)
	{
		struct binding *b = list_entry(link, struct binding, link);

		if (pod_of(p, b) == pod)
			lose(p, b, pod);
	}
	dra_pod_changed(p->dra, pod);
	seats_pod_gone(p, pod);
	try_again(p);
	serve_changed(p);
	parts_look(p->parts);
}

static void on_pods_listed(void *owner)
{
	struct plugin *p = owner;

	list_for_each(link, &p->bindings.all)
	{
		struct binding *b = list_entry(link, struct binding, link);
		const struct pod *pod = pod_of(p, b);

		if (!pod || pod->over)
			lose(p, b, pod);
	}
	dra_follow(p->dra);
	serve_changed(p);
	seats_changed(p);
	prestart_consider(p);
}

static void on_api_troubled(void *owner, const char *problem)
{
	struct plugin *p = owner;

	free(p->api_problem);
	p->api_problem = problem ? strdup(problem) : NULL;
	if (problem)
		log_warning("api.troubled", "reason=%s", log_text(problem).text);
	else
		log_info("api.well", "node=%s", p->node);
}

void containers_gone(struct plugin *p, const char *key, uint32_t tenant)
{
	struct binding *b = binding_store_find(&p->bindings, key);

	if (b && b->tenant == tenant)
		drop(p, b);
	serve_changed(p);
}

/* Before host.kept_all(). */
void containers_keep(struct plugin *p)
{
	list_for_each(link, &p->bindings.all)
	{
		struct binding *b = list_entry(link, struct binding, link);

		int r = p->host->keep(p->host->daemon, b->tenant, b->folder);

		b->lost = r < 0;
		b->absent = r == HOST_ABSENT || b->missings;
	}
}

/* Its record, link, CDI file and folder are kept unchanged. */
static void tell_absent(const struct binding *b)
{
	log_warning(
		"container.absent",
		"pod=%s/%s container=%s tenant=%u device=%s "
		"reason=\"a device of it is missing: no process can join until meted is started "
		"with the device\"",
		b->namespace, b->pod, b->container, b->tenant,
		b->missings ? log_text(b->missing[0]).text : "");
}

/* Earlier containers keep what they have, even if the resource has another name now. */
static void restore(struct plugin *p, struct binding *b)
{
	if (b->lost || (!b->absent && !b->devices)) {
		log_warning("container.lost", "pod=%s/%s container=%s tenant=%u", b->namespace,
			    b->pod, b->container, b->tenant);
		drop(p, b);
		return;
	}
	if (b->absent) {
		tell_absent(b);
		return;
	}
	/* The record of an earlier meted does not tell where its file is. */
	if (config_has_tenants(p->config) && !b->kind)
		best_effort(slots_place(p, b, NULL));
	if (containers_is_foreign(p, b))
		log_info("container.kept",
			 "pod=%s/%s container=%s resource=%s "
			 "reason=\"its devices are given to others when it has ended\"",
			 b->namespace, b->pod, b->container, b->resource);
}

int containers_open(struct plugin *p, struct fault *why)
{
	const struct pods_owner owner = {p, on_pod_changed, on_pod_gone, on_pods_listed,
					 on_api_troubled};
	struct amounts_names names;
	int r = seats_open(p, why);

	if (r < 0)
		return r;
	list_for_each(link, &p->bindings.all) restore(p, list_entry(link, struct binding, link));
	if (config_has_tenants(p->config))
		slots_restore(p);
	else if (!p->bindings.count && !parts_asks_for_pods(p->parts) && !mps_asks_for_pods(p->mps))
		return 0;
	r = sweep_open(p, why);
	if (r < 0 || !p->api || p->pods)
		return r;
	amounts_name(&names, p->config->resource, p->config->domain);
	r = pods_open(p->api, p->node, &names, &owner, &p->pods);
	return r < 0 ? fault_set(why, r, "pods: %s", strerror(-r)) : 0;
}

void containers_close(struct plugin *p)
{
	pods_close(take(p->pods));
	seats_close(take(p->seats));
	free(take(p->api_problem));
}
