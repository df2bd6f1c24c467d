/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The test of a node that most decisions need: a pod of one container, with a part of a GPU or some
 * for itself, on a node where nothing but compute binds. The policies' view of such a node stands
 * in a *brief* of 112 bytes, beside its 1.7 KiB, and no search is needed. The score is that of
 * placement_assign(), to the bit: placement_audit() compares.
 */
#include "core/placement/placement_machine.h"

/* ---- briefs ---------------------------------------------------------------------------------- */

/* With one more part it still is a GPU whose room is its compute alone, in whole steps. */
static bool simple_gpu(const struct placement_gpu *gpu, int32_t left, uint8_t step)
{
	if (gpu->is.geometry || gpu->is.taints || placement_gone(gpu) || gpu->leaving)
		return false;
	if (gpu->exclusive)
		return step == 0;
	return step != PLACEMENT_ODD_STEP && left == step * PLACEMENT_STEP &&
	       gpu->tenants + 1 < placement_slots(gpu);
}

static uint16_t hash_of(const struct placement_sight *sight)
{
	uint64_t words[8] = {0}, hash = 1;

	_Static_assert(sizeof(*sight) <= sizeof(words), "all of it is hashed");
	memcpy(words, sight, sizeof(*sight));
	for (int i = 0; i < 8; i++) {
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15;
		hash ^= hash >> 29;
	}
	return (uint16_t)(hash >> 48);
}

void placement_brief(const struct placement *p, const struct placement_host *host,
		     struct placement_brief *ret_brief)
{
	struct placement_brief brief = {.known = p->plain && host->cpu < INT32_MAX};
	struct placement_view view = {0};
	struct placement_sight *sight = &brief.sight;
	int64_t cpu = placement_cpu_room(host), memory = placement_host_room(host);

	brief.host_memory = memory > 0 ? (uint64_t)memory : 0;
	sight->cpu = cpu > 0 ? (int32_t)cpu : 0;
	sight->cpu_all = (int32_t)host->cpu;
	sight->model = host->model;
	sight->devices = host->devices;
	for (uint32_t k = 0; k < host->devices && brief.known; k++) {
		const struct placement_gpu *gpu = &host->gpu[k];

		placement_view_gpu(p, gpu, &view, k);
		sight->step[k] = view.step[k];
		sight->holders[k] = (uint16_t)(gpu->exclusive ? gpu->holders : 0);
		sight->empty |= (uint16_t)(view.empty[k] << k);
		sight->shut |= (uint16_t)(view.shut[k] << k);
		brief.known = simple_gpu(gpu, view.left[k], view.step[k]);
	}
	brief.hash = hash_of(sight);
	*ret_brief = brief;
}

void placement_view_brief(const struct placement *p, uint32_t node, struct placement_view *ret_view)
{
	const struct placement_sight *sight = &p->briefs[node].sight;

	ret_view->cpu = sight->cpu;
	ret_view->cpu_all = sight->cpu_all;
	ret_view->devices = sight->devices;
	ret_view->model = sight->model;
	ret_view->total = 0;
	for (int k = 0; k < ret_view->devices; k++) {
		ret_view->step[k] = sight->step[k];
		ret_view->left[k] = sight->step[k] * PLACEMENT_STEP;
		ret_view->total += ret_view->left[k];
		ret_view->empty[k] = sight->empty >> k & 1;
		ret_view->shut[k] = sight->shut >> k & 1;
		ret_view->holders[k] = sight->holders[k];
		ret_view->leaving[k] = 0;
		ret_view->open[k] = true;
	}
}

uint32_t placement_alike(struct placement *p, uint32_t node)
{
	const struct placement_brief *brief = &p->briefs[node];
	struct placement_seen *seen = &p->seen[brief->hash % PLACEMENT_SEEN];
	const struct placement_brief *other = &p->briefs[seen->node];

	if (seen->scan == p->scan &&
	    memcmp(&brief->sight, &other->sight, sizeof(brief->sight)) == 0)
		return seen->node;
	*seen = (struct placement_seen){p->scan, node};
	return node;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Whether it asks for more than amounts. */
static bool is_choosy(const struct placement_request *request)
{
	const struct placement_container *want = &request->container[0];

	return want->kind != PLACEMENT_APP || want->profile || want->memory_bytes ||
	       request->named_devices || request->numa || request->links || request->prefers ||
	       request->avoids || request->stays;
}

bool placement_is_simple(const struct placement *p, const struct placement_request *request)
{
	const struct placement_container *want = &request->container[0];
	bool part = want->devices == 1 && want->compute_milli &&
		    want->compute_milli % PLACEMENT_STEP == 0;

	if (request->containers != 1 || is_choosy(request))
		return false;
	if (placement_scores_gpus(p, request) && !p->summed)
		return false;
	return !want->devices || (want->exclusive ? want->compute_milli == PLACEMENT_WHOLE : part);
}

struct quick {
	const struct placement *p;
	const struct placement_host *host;
	const struct placement_request *request;
	struct placement_base base;
	struct placement_view view; /* after */
	struct placement_assignment *out;
};

static int32_t score(const struct quick *it)
{
	return placement_score(it->p, it->host, &it->base, &it->view, it->request, it->out);
}

static void put(struct quick *it, int k, uint32_t milli)
{
	it->view.step[k] = (uint8_t)(it->view.step[k] - milli / PLACEMENT_STEP);
	it->view.left[k] -= (int32_t)milli;
	it->view.total -= (int32_t)milli;
	it->view.empty[k] = 0;
}

static int32_t score_on(struct quick *it, int k, uint32_t milli)
{
	int32_t left = it->view.left[k], empty = it->view.empty[k], total = it->view.total, here;
	uint8_t step = it->view.step[k];

	it->out->slot[0].device = (uint8_t)k;
	put(it, k, milli);
	here = score(it);
	it->view.step[k] = step;
	it->view.left[k] = left;
	it->view.empty[k] = empty;
	it->view.total = total;
	return here;
}

/* The best GPU for a part: as the policy scores it, or that with the least left, or with the most.
 */
static bool find_part(struct quick *it, uint32_t milli, int32_t *ret_score)
{
	bool scored = placement_scores_gpus(it->p, it->request);
	bool roomiest = placement_wants_room(it->p, it->request);
	uint32_t seen[PLACEMENT_DEVICES], size = 0;
	int best = PLACEMENT_NONE;

	*ret_score = INT32_MIN;
	for (int k = 0; k < it->view.devices; k++) {
		int32_t left = it->view.left[k], here;
		uint32_t alike = (uint32_t)it->view.step[k] << 1 | (uint32_t)it->view.empty[k], i;

		if (left < (int32_t)milli)
			continue;
		if (!scored) {
			int32_t least = best < 0 ? 0 : it->view.left[best];

			if (best < 0 || (roomiest ? left > least : left < least))
				best = k;
			continue;
		}
		for (i = 0; i < size && seen[i] != alike; i++)
			;
		if (i < size)
			continue;
		seen[size++] = alike;
		here = score_on(it, k, milli);
		if (here > *ret_score) {
			*ret_score = here;
			best = k;
		}
	}
	if (best >= 0 && !scored)
		*ret_score = score_on(it, best, milli);
	it->out->slot[0].device = (uint8_t)(best < 0 ? 0 : best);
	return best >= 0;
}

static bool find_wholes(struct quick *it, int devices, int32_t *ret_score)
{
	for (int k = 0; k < it->view.devices && it->out->size < devices; k++) {
		if (!it->view.empty[k] || it->view.left[k] != PLACEMENT_WHOLE)
			continue;
		put(it, k, PLACEMENT_WHOLE);
		it->view.holders[k] += placement_holder((uint32_t)devices);
		it->view.shut[k] = true;
		it->out->slot[it->out->size++] = (struct placement_slot){.device = (uint8_t)k};
	}
	if (it->out->size < devices)
		return false;
	*ret_score = score(it);
	return true;
}

bool placement_quick(const struct placement *p, uint32_t node,
		     const struct placement_request *request,
		     struct placement_assignment *ret_assignment, int32_t *ret_score)
{
	const struct placement_container *want = &request->container[0];
	struct quick it;

	if (want->host_memory_bytes > p->briefs[node].host_memory)
		return false;
	it.p = p;
	it.host = &p->hosts[node];
	it.request = request;
	it.out = ret_assignment;
	it.out->size = 0;
	placement_view_brief(p, node, &it.view);
	placement_measure(p, request, &it.view, &p->briefs[node].measured, &it.base);
	it.base.cpu_needed = want->cpu_milli;
	it.view.cpu -= want->cpu_milli;
	if (want->devices && !want->exclusive) {
		it.out->slot[it.out->size++] = (struct placement_slot){0};
		return find_part(&it, want->compute_milli, ret_score);
	}
	return find_wholes(&it, want->devices, ret_score);
}
