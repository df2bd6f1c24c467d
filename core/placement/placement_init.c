/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Init containers come after the others: each sees the node as it is before those start, and
 * prefers GPUs that the pod will have anyway.
 */
#include "core/placement/placement_search.h"

/* s->host becomes the node as init container `container` finds it: sidecars run, the rest not;
 * MIG instances exist from the start. */
static void before_init(struct search *s, int container)
{
	placement_copy_host(&s->host, s->before);
	for (int i = 0; i < s->out->size; i++) {
		int who = s->out->slot[i].container;
		const struct placement_container *it = &s->request->container[who];

		if (it->profile || (it->kind == PLACEMENT_SIDECAR && who < container))
			search_put(s, &s->out->slot[i]);
	}
}

/* The container's cost on a GPU beyond the pod's own share there. */
static int64_t cost(const struct search *s, const struct placement_host *held,
		    const struct placement_container *want, int device)
{
	const struct placement_gpu *with = &held->gpu[device], *without = &s->before->gpu[device];
	uint8_t class = s->request->class;
	int64_t more =
		(int64_t)want->compute_milli - with->compute[class] + without->compute[class];

	return (more > 0 ? more : 0) * 4 + (with->tenants == without->tenants);
}

static void find_choices(const struct search *s, const struct placement_host *held,
			 const struct placement_container *want, struct choices *ret_all)
{
	ret_all->size = 0;
	for (int i = 0; i < s->host.devices; i++)
		if (!(placement_gpu_refusals(s->p, &s->host.gpu[i], s->request, want, (uint32_t)i) &
		      ~s->lifted))
			choices_insert(ret_all, (uint8_t)i, (int32_t)-cost(s, held, want, i));
}

static bool place(struct search *s, const struct placement_host *held, int container);

struct about {
	const struct placement_host *held; /* with the other containers */
	int container;
};

/* The next containers find the node without this one. If they find no place, the node is again as
 * it was. */
static bool place_next(struct search *s, const void *about_)
{
	const struct about *about = about_;
	struct placement_host here;

	placement_copy_host(&here, &s->host);
	if (place(s, about->held, about->container + 1))
		return true;
	placement_copy_host(&s->host, &here);
	return false;
}

/* The init containers from `container` on. */
static bool place(struct search *s, const struct placement_host *held, int container)
{
	const struct placement_container *want;
	struct choices all;

	while (container < s->request->containers &&
	       (s->request->container[container].kind != PLACEMENT_INIT ||
		!s->request->container[container].devices))
		container++;
	if (container >= s->request->containers)
		return true;
	want = &s->request->container[container];
	before_init(s, container);
	find_choices(s, held, want, &all);
	return search_pick(s, &(struct step){.all = &all,
					     .container = container,
					     .left = want->devices,
					     .next = place_next,
					     .about = &(struct about){held, container}});
}

static bool has_inits(const struct placement_request *request)
{
	for (int i = 0; i < request->containers; i++)
		if (request->container[i].kind == PLACEMENT_INIT && request->container[i].devices)
			return true;
	return false;
}

bool placement_place_inits(struct search *s)
{
	struct placement_host held;
	struct placement_view view;
	bool found;

	if (!has_inits(s->request))
		return true;
	placement_copy_host(&held, &s->host);
	view = s->view;
	found = place(s, &held, 0);
	/* The node is scored with the others. */
	placement_copy_host(&s->host, &held);
	s->view = view;
	return found;
}
