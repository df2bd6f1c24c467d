/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which GPUs of a node a request gets. Containers that run together are placed largest first, each
 * on the GPUs that the policy likes best; where that leads nowhere, other choices are tried in
 * order, up to a bound. Init containers come after: each sees the node as it is before the pod's
 * other containers start, and prefers GPUs that the pod will have anyway.
 */
#include "core/placement_machine.h"

#define BIT(name) (1u << PLACEMENT_NO_##name)

/* Choices tried per node before the answer is no: exact for what people write (a few containers),
 * bounded for what an adversary writes. */
enum { TRIES = 4096 };

struct search {
	const struct placement *p;
	const struct placement_host *before; /* without this pod */
	const struct placement_request *request;
	struct placement_assignment *out;
	struct placement_host host; /* with what is placed so far */
	struct placement_base base;
	struct placement_view view;
	int32_t only_score; /* the node's, found on the way where a pod has one GPU */
	uint32_t lifted;
	int tries;
	int containers;
	uint8_t order[PLACEMENT_CONTAINERS];
};

/* The GPUs that can take one more of a container, best first. */
struct choices {
	int size;
	uint8_t device[PLACEMENT_DEVICES];
	int32_t score[PLACEMENT_DEVICES];
};

static bool larger(const struct placement_container *a, const struct placement_container *b)
{
	if (a->devices != b->devices)
		return a->devices > b->devices;
	if (a->exclusive != b->exclusive)
		return a->exclusive;
	if (a->compute_milli != b->compute_milli)
		return a->compute_milli > b->compute_milli;
	return a->memory_bytes > b->memory_bytes;
}

static void order_containers(struct search *s)
{
	s->containers = 0;
	for (int i = 0; i < s->request->containers; i++) {
		const struct placement_container *it = &s->request->container[i];
		int at = s->containers;

		if (!it->devices || it->kind == PLACEMENT_INIT)
			continue;
		for (; at > 0 && larger(it, &s->request->container[s->order[at - 1]]); at--)
			s->order[at] = s->order[at - 1];
		s->order[at] = (uint8_t)i;
		s->containers++;
	}
}

static void insert(struct choices *all, uint8_t device, int32_t score)
{
	int at = all->size++;

	for (; at > 0 && score > all->score[at - 1]; at--) {
		all->device[at] = all->device[at - 1];
		all->score[at] = all->score[at - 1];
	}
	all->device[at] = device;
	all->score[at] = score;
}

/* How close a GPU is to the others of its set: links count before NUMA nodes. */
static int closeness(const struct placement_host *host, uint32_t set, int device)
{
	int n = 0;

	for (int i = 0; i < host->devices; i++)
		if (set >> i & 1)
			n += 4 * (host->gpu[device].is.links >> i & 1) +
			     (host->gpu[device].is.numa == host->gpu[i].is.numa);
	return n;
}

/* Brings the `n` closest GPUs to the front: from each seed grows a set, and keeps the best. */
static void sort_by_closeness(const struct placement_host *host, struct choices *all, int n)
{
	uint8_t best[PLACEMENT_DEVICES] = {0};
	int best_sum = -1;
	uint32_t best_set = 0;
	struct choices sorted = {0};

	for (int seed = 0; seed < all->size; seed++) {
		uint8_t grown[PLACEMENT_DEVICES] = {all->device[seed]};
		uint32_t set = 1u << all->device[seed];
		int sum = 0;

		for (int k = 1; k < n; k++) {
			int next = -1, close = -1;

			for (int i = 0; i < all->size; i++) {
				int c = closeness(host, set, all->device[i]);

				if (!(set >> all->device[i] & 1) && c > close) {
					close = c;
					next = all->device[i];
				}
			}
			if (next < 0)
				return; /* fewer than n: there is nothing to choose */
			grown[k] = (uint8_t)next;
			set |= 1u << next;
			sum += close;
		}
		if (sum > best_sum) {
			best_sum = sum;
			best_set = set;
			memcpy(best, grown, sizeof(best));
		}
	}
	for (int i = 0; i < n; i++)
		sorted.device[sorted.size++] = best[i];
	for (int i = 0; i < all->size; i++)
		if (!(best_set >> all->device[i] & 1))
			sorted.device[sorted.size++] = all->device[i];
	memcpy(all->device, sorted.device, sizeof(all->device));
}

static void find_choices(struct search *s, const struct placement_container *want,
			 struct choices *ret_all)
{
	bool alone = want->devices == 1;
	bool near = s->request->numa || s->request->links;

	ret_all->size = 0;
	for (int i = 0; i < s->host.devices; i++) {
		const struct placement_gpu *gpu = &s->host.gpu[i];
		bool seen = false;

		/* Equal GPUs are equal choices, unless it matters which ones are together. */
		for (int j = 0; alone && j < ret_all->size && !seen; j++)
			seen = placement_same_gpu(gpu, &s->host.gpu[ret_all->device[j]]) &&
			       !s->request->named_devices;
		if (seen ||
		    placement_gpu_refusals(s->p, gpu, s->request, want, (uint32_t)i) & ~s->lifted)
			continue;
		insert(ret_all, (uint8_t)i,
		       placement_score_gpu(s->p, &s->host, &s->base, &s->view, s->request, want,
					   (uint32_t)i));
	}
	if (near && !alone && ret_all->size > want->devices)
		sort_by_closeness(&s->host, ret_all, want->devices);
}

static void put(struct search *s, const struct placement_slot *slot)
{
	const struct placement_container *want = &s->request->container[slot->container];
	struct placement_gpu *gpu = &s->host.gpu[slot->device];
	int profile =
		want->profile ? placement_find_profile(s->p, gpu, want->profile) : PLACEMENT_NONE;

	/* With its reason lifted there may be no profile: then nothing but a tenancy is taken. */
	if (want->profile && profile < 0)
		gpu->tenants++;
	else
		placement_put(s->p, gpu, s->request->class, want, profile, slot->start);
	placement_look_gpu(s->p, gpu, &s->view, slot->device);
}

static void add(struct search *s, int container, int device)
{
	const struct placement_container *want = &s->request->container[container];
	const struct placement_gpu *gpu = &s->host.gpu[device];
	struct placement_slot slot = {(uint8_t)container, (uint8_t)device, 0};
	int profile =
		want->profile ? placement_find_profile(s->p, gpu, want->profile) : PLACEMENT_NONE;

	if (profile >= 0) {
		int start = placement_find_start(s->p, gpu, profile);

		slot.start = start < 0 ? 0 : (uint8_t)start;
	}
	put(s, &slot);
	s->out->slot[s->out->size++] = slot;
}

static void drop(struct search *s, const struct placement_gpu *before)
{
	int device = s->out->slot[--s->out->size].device;

	s->host.gpu[device] = *before;
	placement_look_gpu(s->p, before, &s->view, (uint32_t)device);
}

/* Whether a GPU may join those that the container has: the wishes that are demands. */
static bool together(const struct search *s, int container, int device)
{
	const struct placement_host *host = &s->host;

	for (int i = s->out->size - 1; i >= 0; i--) {
		const struct placement_slot *slot = &s->out->slot[i];

		if (slot->container != container)
			break;
		if (s->request->numa == PLACEMENT_REQUIRE && !(s->lifted & BIT(NUMA)) &&
		    host->gpu[slot->device].is.numa != host->gpu[device].is.numa)
			return false;
		if (s->request->links == PLACEMENT_REQUIRE && !(s->lifted & BIT(LINK)) &&
		    !(host->gpu[slot->device].is.links >> device & 1))
			return false;
	}
	return true;
}

static bool place(struct search *s, int at);

/* Picks `left` more of `all` for a container, from position `from`; then the next containers. */
static bool pick(struct search *s, int at, const struct choices *all, int from, int left)
{
	int container = s->order[at];

	if (left == 0)
		return place(s, at + 1);
	for (int i = from; i + left <= all->size; i++) {
		struct placement_gpu before = s->host.gpu[all->device[i]];

		if (s->tries-- <= 0)
			return false;
		if (!together(s, container, all->device[i]))
			continue;
		add(s, container, all->device[i]);
		if (pick(s, at, all, i + 1, left - 1))
			return true;
		drop(s, &before);
	}
	return false;
}

static bool place(struct search *s, int at)
{
	const struct placement_container *want;
	struct choices all;

	if (at == s->containers)
		return true;
	want = &s->request->container[s->order[at]];
	find_choices(s, want, &all);
	if (all.size < want->devices)
		return false;
	s->only_score = all.score[0];
	return pick(s, at, &all, 0, want->devices);
}

/* The GPU that an init container costs least on: one where the pod's own share covers it. */
static int init_gpu(struct search *s, const struct placement_host *held, int container,
		    uint32_t taken)
{
	const struct placement_container *want = &s->request->container[container];
	int best = PLACEMENT_NONE;
	int64_t best_cost = INT64_MAX;

	for (int i = 0; i < s->host.devices; i++) {
		const struct placement_gpu *gpu = &s->host.gpu[i];
		uint8_t class = s->request->class;
		int64_t cost;

		if (taken >> i & 1 || !together(s, container, i) ||
		    placement_gpu_refusals(s->p, gpu, s->request, want, (uint32_t)i) & ~s->lifted)
			continue;
		cost = (int64_t)want->compute_milli - held->gpu[i].compute[class] +
		       s->before->gpu[i].compute[class];
		if (cost < 0)
			cost = 0;
		cost = cost * 4 + (held->gpu[i].tenants == s->before->gpu[i].tenants);
		if (cost < best_cost) {
			best_cost = cost;
			best = i;
		}
	}
	return best;
}

/* s->host becomes the node as init container `container` finds it: sidecars run, the rest not;
 * MIG instances exist from the start. */
static void before_init(struct search *s, int container)
{
	placement_copy_host(&s->host, s->before);
	for (int i = 0; i < s->out->size; i++) {
		int who = s->out->slot[i].container;
		const struct placement_container *it = &s->request->container[who];

		if (it->profile || (it->kind == PLACEMENT_SIDECAR && who < container))
			put(s, &s->out->slot[i]);
	}
}

static int place_inits(struct search *s)
{
	struct placement_host held;

	placement_copy_host(&held, &s->host);
	for (int i = 0; i < s->request->containers; i++) {
		const struct placement_container *want = &s->request->container[i];
		uint32_t taken = 0;

		if (want->kind != PLACEMENT_INIT || !want->devices)
			continue;
		before_init(s, i);
		for (int n = 0; n < want->devices; n++) {
			int device = init_gpu(s, &held, i, taken);

			if (device < 0)
				return -ENOENT;
			taken |= 1u << device;
			add(s, i, device);
		}
	}
	return 0;
}

static int assign_together(struct search *s)
{
	s->view = s->base.view;
	s->view.cpu -= s->base.cpu_needed;
	placement_copy_host(&s->host, s->before);
	order_containers(s);
	s->tries = TRIES;
	if (!place(s, 0))
		return -ENOENT;
	for (int i = 0; i < s->request->containers; i++)
		if (s->request->container[i].kind == PLACEMENT_INIT &&
		    s->request->container[i].devices)
			return place_inits(s);
	return 0;
}

/* Each container on its own, against the node without the others. */
static int assign_apart(struct search *s)
{
	struct placement_request alone = *s->request;
	const struct placement_request *all = s->request;
	int r = 0;

	for (int i = 0; i < all->containers && r == 0; i++) {
		alone.containers = 1;
		alone.container[0] = all->container[i];
		alone.container[0].kind = PLACEMENT_APP;
		s->request = &alone;
		s->out->size = 0;
		r = assign_together(s);
	}
	s->request = all;
	return r;
}

/* Whether each container alone could be there: most nodes of a busy cluster say no to this, and a
 * closer look costs ten times as much. */
static bool plausible(const struct placement *p, const struct placement_host *host,
		      const struct placement_request *request, uint32_t lifted)
{
	for (int c = 0; c < request->containers; c++) {
		const struct placement_container *want = &request->container[c];
		int gpus = 0;

		if (want->kind == PLACEMENT_INIT)
			continue;
		for (int i = 0; i < host->devices && gpus < want->devices; i++)
			gpus += !(placement_gpu_refusals(p, &host->gpu[i], request, want,
							 (uint32_t)i) &
				  ~lifted);
		if (gpus < want->devices)
			return false;
	}
	return true;
}

int placement_assign(const struct placement *p, struct placement_host *host, uint32_t node,
		     const struct placement_request *request, uint32_t lifted,
		     struct placement_assignment *ret_assignment, int32_t *ret_score)
{
	struct search s;
	int r;

	if (placement_node_refusals(host, node, request) & ~lifted ||
	    !plausible(p, host, request, lifted))
		return -ENOENT;
	s.p = p;
	s.before = host;
	s.request = request;
	s.lifted = lifted;
	s.out = ret_assignment;
	ret_assignment->size = 0;
	placement_base(p, host, request, &s.base);
	r = lifted & BIT(PACKING) ? assign_apart(&s) : assign_together(&s);
	if (r < 0 || lifted)
		return r;
	*ret_score = ret_assignment->size == 1 && s.containers == 1 && placement_scores_gpus(p) &&
				     !request->container[s.order[0]].exclusive &&
				     !request->container[s.order[0]].profile
			     ? s.only_score
			     : placement_score(p, host, &s.base, &s.view, request, ret_assignment);
	return 0;
}
