/* SPDX-License-Identifier: Apache-2.0 */
#include "core/placement/placement_search.h"

void choices_insert(struct choices *all, uint8_t device, int32_t score)
{
	int at = all->size++;

	for (; at > 0 && score > all->score[at - 1]; at--) {
		all->device[at] = all->device[at - 1];
		all->score[at] = all->score[at - 1];
	}
	all->device[at] = device;
	all->score[at] = score;
}

void search_put(struct search *s, const struct placement_slot *slot)
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
	/* However many of its containers are there, the pod is one holder. */
	if (gpu->holders == s->before->gpu[slot->device].holders) {
		uint32_t part = placement_holder(want->devices);
		uint32_t less = placement_leaving(part, s->request->stays);

		gpu->holders += part - less;
		gpu->leaving += less;
	}
	placement_view_gpu(s->p, gpu, &s->view, slot->device);
}

void search_add(struct search *s, int container, int device, uint8_t start)
{
	struct placement_slot slot = {(uint8_t)container, (uint8_t)device, start};

	search_put(s, &slot);
	s->out->slot[s->out->size++] = slot;
}

void search_starts(const struct search *s, int container, int device, struct starts *ret_all)
{
	const struct placement_container *want = &s->request->container[container];
	const struct placement_gpu *gpu = &s->host.gpu[device];
	int profile =
		want->profile ? placement_find_profile(s->p, gpu, want->profile) : PLACEMENT_NONE;

	ret_all->size = 0;
	if (profile >= 0)
		ret_all->size = placement_find_starts(s->p, gpu, profile, ret_all->start);
	/* With its reason lifted there may be none. */
	if (ret_all->size == 0)
		ret_all->start[ret_all->size++] = 0;
}

void search_drop(struct search *s, const struct placement_gpu *before)
{
	int device = s->out->slot[--s->out->size].device;

	s->host.gpu[device] = *before;
	placement_view_gpu(s->p, before, &s->view, (uint32_t)device);
}

bool search_together(const struct search *s, int container, int device)
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

bool search_pick(struct search *s, const struct step *step)
{
	if (step->left == 0)
		return step->next(s, step->about);
	for (int i = step->from; i + step->left <= step->all->size; i++) {
		uint8_t device = step->all->device[i];
		struct placement_gpu before = s->host.gpu[device];
		struct step rest = *step;
		struct starts ways;

		if (!search_together(s, step->container, device))
			continue;
		rest.from = i + 1;
		rest.left = step->left - 1;
		search_starts(s, step->container, device, &ways);
		for (int w = 0; w < ways.size; w++) {
			if (s->tries-- <= 0)
				return false;
			search_add(s, step->container, device, ways.start[w]);
			if (search_pick(s, &rest))
				return true;
			search_drop(s, &before);
		}
	}
	return false;
}
