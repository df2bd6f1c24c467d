/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the GPUs of a node for a request. Containers that run together are placed largest first,
 * each on the GPUs that the policy likes best, a MIG instance where it spoils least; where that
 * leads nowhere, for them or for the init containers (core/placement/placement_init.c), other
 * choices are tried in order, up to a bound.
 */
#include "core/placement/placement_search.h"

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
	ret_all->score[0] = 0;
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
		choices_insert(ret_all, (uint8_t)i,
			       placement_score_gpu(s->p, &s->host, &s->base, &s->view, s->request,
						   want, (uint32_t)i));
	}
	if (near && !alone && ret_all->size > want->devices)
		sort_by_closeness(&s->host, ret_all, want->devices);
}

static bool place(struct search *s, int at);

static bool place_next(struct search *s, const void *at)
{
	return place(s, *(const int *)at + 1);
}

static bool place(struct search *s, int at)
{
	const struct placement_container *want;
	struct choices all;

	if (at == s->containers)
		return placement_place_inits(s);
	want = &s->request->container[s->order[at]];
	find_choices(s, want, &all);
	if (all.size < want->devices)
		return false;
	s->only_score = all.score[0];
	return search_pick(s, &(struct step){.all = &all,
					     .container = s->order[at],
					     .left = want->devices,
					     .next = place_next,
					     .about = &at});
}

static int assign_together(struct search *s)
{
	s->view = s->base.view;
	s->view.cpu -= s->base.cpu_needed;
	placement_copy_host(&s->host, s->before);
	order_containers(s);
	return place(s, 0) ? 0 : -ENOENT;
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

/* No two parts that are larger than half of the room of any GPU fit onto one: are there more such
 * parts than GPUs? Otherwise it would take a search through all their orders to find out. */
static bool too_many_large(const struct placement *p, const struct placement_host *host,
			   const struct placement_request *request)
{
	int64_t most = 0;
	int large = 0;

	if (request->containers < 2)
		return false;
	for (int i = 0; i < host->devices; i++) {
		int64_t room = placement_compute_room(p, &host->gpu[i], request->class);

		most = room > most ? room : most;
	}
	for (int c = 0; c < request->containers; c++) {
		const struct placement_container *want = &request->container[c];

		if (want->kind != PLACEMENT_INIT && !want->profile &&
		    2 * (int64_t)want->compute_milli > most)
			large += want->devices;
	}
	return large > host->devices;
}

/* Whether each container alone could be there: most nodes of a busy cluster fail this test, and a
 * closer one costs ten times as much. */
static bool plausible(const struct placement *p, const struct placement_host *host,
		      const struct placement_request *request, uint32_t lifted)
{
	if (!lifted && too_many_large(p, host, request))
		return false;
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

/* The pod holds as many GPUs as all of its containers together: that is known at the end. */
static void find_holders(struct search *s)
{
	uint32_t all = 0, part, less;

	for (int i = 0; i < s->out->size; i++)
		all |= 1u << s->out->slot[i].device;
	part = placement_holder((uint32_t)placement_bits(all));
	less = placement_leaving(part, s->request->stays);
	for (int i = 0; i < s->host.devices; i++) {
		if (s->view.holders[i] == s->base.view.holders[i])
			continue;
		s->view.holders[i] = s->base.view.holders[i] + part - less;
		s->view.leaving[i] = s->base.view.leaving[i] + less;
	}
}

static int tries_for(const struct placement *p)
{
	if (p->tries >= PLACEMENT_TRIES)
		return PLACEMENT_TRIES;
	if (p->tries <= -PLACEMENT_TRIES_ALL)
		return 0;
	return p->tries > PLACEMENT_TRIES_LEAST ? p->tries : PLACEMENT_TRIES_LEAST;
}

int placement_assign(struct placement *p, struct placement_host *host, uint32_t node,
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
	s.tries = tries_for(p);
	p->tries -= s.tries;
	r = lifted & BIT(PACKING) ? assign_apart(&s) : assign_together(&s);
	p->tries += s.tries > 0 ? s.tries : 0;
	if (r < 0 || lifted)
		return r;
	if (request->containers > 1)
		find_holders(&s);
	*ret_score = ret_assignment->size == 1 && s.containers == 1 &&
				     placement_scores_gpus(p, request) &&
				     !request->container[s.order[0]].exclusive &&
				     !request->container[s.order[0]].profile
			     ? s.only_score
			     : placement_score(p, host, &s.base, &s.view, request, ret_assignment);
	*ret_score += placement_preference(host, request);
	return 0;
}
