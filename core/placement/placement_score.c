/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The policies. The six of the published comparison are scored as its authors' simulator does: in
 * whole numbers 0..100 (docs/placement-study.md says what that does to the result).
 */
#include "core/placement/placement_machine.h"

/* More than any two scores of a policy are apart. Three of them below 0 and one above are still
 * numbers: placement_score(), placement_preference(). */
enum { WISH_PENALTY = 1 << 29 };

static enum placement_policy policy_for(const struct placement *p,
					const struct placement_request *request)
{
	if (request->way == PLACEMENT_WAY_PACK)
		return PLACEMENT_BINPACK;
	if (request->way == PLACEMENT_WAY_SPREAD)
		return PLACEMENT_SPREAD;
	return p->config.policy;
}

/* 1000 ln(k / (100 - k)), rounded to thousandths, for k = 1..99: from where on
 * floor(100 / (1 + exp(-x / 1000))) is k. Half of them: the other half is their mirror image. */
static const int32_t sigmoid_from[50] = {
	0,	  -4595120, -3891820, -3476099, -3178054, -2944439, -2751535, -2586689, -2442347,
	-2313635, -2197225, -2090741, -1992430, -1900959, -1815290, -1734601, -1658228, -1585627,
	-1516347, -1450010, -1386294, -1324925, -1265666, -1208311, -1152680, -1098612, -1045969,
	-994623,  -944462,  -895384,  -847298,	-800119,  -753772,  -708185,  -663294,	-619039,
	-575364,  -532217,  -489548,  -447312,	-405465,  -363965,  -322773,  -281851,	-241162,
	-200671,  -160343,  -120144,  -80043,	-40005,
};

static int32_t threshold(int k)
{
	if (k == 50)
		return 0;
	return k < 50 ? sigmoid_from[k] : -sigmoid_from[100 - k];
}

/* floor(100 sigmoid(milli / 1000)); milli in thousandths. */
static int32_t percent_sigmoid(int64_t milli_thousandths)
{
	int low = 0, high = 99;

	while (low < high) {
		int middle = (low + high + 1) / 2;

		if (milli_thousandths >= threshold(middle))
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

static int32_t mig_left(const struct placement *p, const struct placement_gpu *gpu)
{
	const struct placement_profiles *all = &p->geometry[gpu->is.geometry];
	uint32_t slices = 0;

	for (int i = 0; i < all->size; i++)
		for (int start = 0; start < 32; start++)
			if (all->profile[i].starts >> start & 1)
				slices |= ((1u << all->profile[i].size) - 1) << start;
	if (!slices)
		return 0;
	return 1000 * placement_bits(slices & ~gpu->mig_taken) / placement_bits(slices);
}

static int32_t gpu_left(const struct placement *p, const struct placement_gpu *gpu)
{
	int64_t compute, memory;

	if (placement_gone(gpu))
		return 0;
	if (gpu->is.geometry)
		return mig_left(p, gpu);
	if (gpu->exclusive || gpu->is.taints)
		return 0;
	compute = (int64_t)gpu->is.compute_milli -
		  (int64_t)(gpu->compute[0] + gpu->compute[1] + gpu->compute[2]);
	memory = (int64_t)(gpu->memory[0] + gpu->memory[1] + gpu->memory[2]);
	if (memory > 0 && gpu->is.memory_bytes) {
		int64_t kib = (int64_t)(gpu->is.memory_bytes >> 10);

		memory = ((int64_t)(gpu->is.memory_bytes >> 10) - (memory >> 10)) *
			 (int64_t)gpu->is.compute_milli / (kib ? kib : 1);
		if (memory < compute)
			compute = memory;
	}
	return compute > 0 ? (int32_t)compute : 0;
}

static int32_t fit32(int64_t room)
{
	if (room > INT32_MAX)
		return INT32_MAX;
	return room < -1 ? -1 : (int32_t)room;
}

static uint8_t step_of(int32_t milli)
{
	if (milli > PLACEMENT_WHOLE || (milli > 0 && milli % PLACEMENT_STEP != 0))
		return PLACEMENT_ODD_STEP;
	return milli > 0 ? (uint8_t)(milli / PLACEMENT_STEP) : 0;
}

void placement_view_gpu(const struct placement *p, const struct placement_gpu *gpu,
			struct placement_view *view, uint32_t device)
{
	int32_t left = gpu_left(p, gpu);
	bool closed = placement_closed(gpu) || gpu->is.taints;

	view->total += left - view->left[device];
	view->left[device] = left;
	view->empty[device] = gpu->tenants == 0;
	view->holders[device] = gpu->holders;
	view->leaving[device] = gpu->leaving;
	view->shut[device] = gpu->exclusive > 0;
	view->open[device] = !gpu->is.taints && !gpu->is.geometry && !gpu->is.lost;
	view->geometry[device] = gpu->is.taints || placement_gone(gpu) ? 0 : gpu->is.geometry;
	view->mig_taken[device] = gpu->mig_taken;
	if (view->geometry[device])
		memcpy(view->mig_instances[device], gpu->mig_instances, PLACEMENT_PROFILES);
	for (int i = 0; i < PLACEMENT_CLASSES; i++) {
		if (p->level[i] != i)
			continue;
		view->compute[i][device] =
			closed ? -1 : fit32(placement_compute_room(p, gpu, (uint8_t)i));
		view->memory[i][device] =
			closed ? -1 : fit32(placement_memory_room(p, gpu, (uint8_t)i) >> 20);
	}
	view->step[device] = p->plain ? step_of(view->compute[0][device]) : PLACEMENT_ODD_STEP;
}

void placement_view_host(const struct placement *p, const struct placement_host *host,
			 struct placement_view *ret_view)
{
	memset(ret_view, 0, offsetof(struct placement_view, compute));
	memset(ret_view->compute, 0xff, sizeof(ret_view->compute));
	ret_view->cpu = placement_cpu_room(host) > 0 ? placement_cpu_room(host) : 0;
	ret_view->cpu_all = host->cpu;
	ret_view->devices = host->devices;
	ret_view->model = host->model;
	ret_view->gpu_mib = 0;
	for (uint32_t i = 0; i < host->devices; i++) {
		uint64_t mib = host->gpu[i].is.memory_bytes >> 20;

		ret_view->gpu_mib = mib > ret_view->gpu_mib ? mib : ret_view->gpu_mib;
		placement_view_gpu(p, &host->gpu[i], ret_view, i);
	}
}

bool placement_scores_gpus(const struct placement *p, const struct placement_request *request)
{
	enum placement_policy policy = policy_for(p, request);

	return policy == PLACEMENT_FGD || policy == PLACEMENT_FORESIGHT;
}

int32_t placement_preference(const struct placement_host *host,
			     const struct placement_request *request)
{
	int32_t score = 0;

	if (request->prefers >> host->model & 1 && placement_asks_gpus(request))
		score += WISH_PENALTY;
	if (request->avoids & host->tags)
		score -= WISH_PENALTY;
	return score;
}

void placement_measure(const struct placement *p, const struct placement_request *request,
		       const struct placement_view *view, struct placement_measured *known,
		       struct placement_base *ret_base)
{
	if (!placement_scores_gpus(p, request)) {
		if (view != &ret_base->view)
			memcpy(&ret_base->view, view, offsetof(struct placement_view, empty));
		return;
	}
	if (!known->known) {
		if (p->config.policy == PLACEMENT_FGD)
			known->waste = placement_waste(p, view);
		else
			known->worth = placement_worth(p, view);
		known->known = true;
	}
	ret_base->measured = *known;
}

void placement_base(const struct placement *p, struct placement_host *host,
		    const struct placement_request *request, struct placement_base *ret_base)
{
	uint64_t memory;

	placement_view_host(p, host, &ret_base->view);
	placement_host_needs(request, &ret_base->cpu_needed, &memory);
	placement_measure(p, request, &ret_base->view, &host->measured, ret_base);
}

static int32_t fgd(const struct placement *p, const struct placement_base *base,
		   const struct placement_view *view)
{
	int64_t less = base->measured.waste - placement_waste(p, view);

	/* |less| < 2^20 pods * 16000 milli * 1000 fits. */
	return p->usual_count ? percent_sigmoid(less * 1000 / (int64_t)p->usual_count) : 50;
}

static int64_t asked_milli(const struct placement_request *request)
{
	int64_t sum = 0;

	for (int i = 0; i < request->containers; i++)
		if (request->container[i].kind != PLACEMENT_INIT)
			sum += (int64_t)request->container[i].devices *
			       request->container[i].compute_milli;
	return sum;
}

/* How little of the node's worth is lost. Losses are of all sizes, and a float's bits are in their
 * order: none is rounded away beside a larger one. */
static int32_t foresight(const struct placement *p, const struct placement_base *base,
			 const struct placement_view *view)
{
	double lost = base->measured.worth - placement_worth(p, view);
	float size = (float)(lost < 0 ? -lost : lost);
	int32_t bits;

	memcpy(&bits, &size, sizeof(bits));
	return lost < 0 ? bits >> 3 : -(bits >> 3);
}

/* The room that is left, weighed half and half against the largest node. */
static int32_t best_fit(const struct placement *p, const struct placement_view *view)
{
	double cpu = (double)view->cpu / (double)p->most_cpu;
	double gpu = (double)view->total / (double)p->most_gpu;

	return (int32_t)((1 - (cpu * 0.5 + gpu * 0.5)) * 100);
}

static int32_t dot_product(const struct placement *p, const struct placement_base *base,
			   const struct placement_request *request)
{
	double cpu = (double)base->view.cpu / (double)p->most_cpu *
		     ((double)base->cpu_needed / (double)p->most_cpu);
	double gpu = (double)base->view.total / (double)p->most_gpu *
		     ((double)asked_milli(request) / (double)p->most_gpu);

	return (int32_t)((1 - (cpu + gpu) / 2) * 100);
}

/* Nodes with only this kind of pod before nodes with it and others, then empty ones, then the
 * rest; within each, the fuller first. */
static int32_t clustering(const struct placement *p, const struct placement_host *host,
			  const struct placement_base *base,
			  const struct placement_request *request)
{
	uint8_t kind = placement_kind(request);
	int kinds = 0, rank;

	if (kind == PLACEMENT_KIND_NONE)
		return 0;
	for (int i = 0; i <= PLACEMENT_DEVICES; i++)
		kinds += host->kinds[i] > 0;
	if (host->kinds[kind])
		rank = kinds == 1 ? 75 : 50;
	else
		rank = kinds == 0 ? 25 : 0;
	return rank + (int32_t)(25 * (p->most_gpu - base->view.total) / p->most_gpu);
}

static int32_t packing(const struct placement_base *base, const struct placement_request *request,
		       const struct placement_assignment *assignment)
{
	int free_gpus = 0, takes_free = 0;
	int32_t shared = 0, score;

	if (placement_kind(request) == PLACEMENT_KIND_NONE)
		return 0;
	for (int i = 0; i < base->view.devices; i++)
		free_gpus += base->view.left[i] == PLACEMENT_WHOLE;
	if (free_gpus == base->view.devices)
		return 33 - free_gpus > free_gpus ? 33 - free_gpus : free_gpus;
	for (int i = 0; i < assignment->size; i++) {
		int32_t left = base->view.left[assignment->slot[i].device];

		takes_free += left == PLACEMENT_WHOLE;
		shared += left * 100 / PLACEMENT_WHOLE;
	}
	score = takes_free ? 50 - takes_free : 100 - shared / 10;
	if (takes_free)
		return score > 33 ? score : 33;
	return score > 50 ? score : 50;
}

static int32_t by_policy(const struct placement *p, const struct placement_host *host,
			 const struct placement_base *base, const struct placement_view *view,
			 const struct placement_request *request,
			 const struct placement_assignment *assignment)
{
	switch (policy_for(p, request)) {
	case PLACEMENT_BINPACK:
		return -view->total;
	case PLACEMENT_SPREAD:
		return view->total;
	case PLACEMENT_BEST_FIT:
		return best_fit(p, view);
	case PLACEMENT_DOT:
		return dot_product(p, base, request);
	case PLACEMENT_CLUSTERING:
		return clustering(p, host, base, request);
	case PLACEMENT_PACKING:
		return packing(base, request, assignment);
	case PLACEMENT_FGD:
		return fgd(p, base, view);
	case PLACEMENT_FORESIGHT:
		return foresight(p, base, view);
	case PLACEMENT_POLICIES:
		break;
	}
	return 0;
}

int32_t placement_score(const struct placement *p, const struct placement_host *host,
			const struct placement_base *base, const struct placement_view *view,
			const struct placement_request *request,
			const struct placement_assignment *assignment)
{
	int32_t score = by_policy(p, host, base, view, request, assignment);

	/* A wish comes before the policy: nodes that meet it are all better than the others. */
	if (request->numa == PLACEMENT_PREFER &&
	    !placement_wish_holds(host, request, assignment, false))
		score -= WISH_PENALTY;
	if (request->links == PLACEMENT_PREFER &&
	    !placement_wish_holds(host, request, assignment, true))
		score -= WISH_PENALTY;
	return score;
}

enum within { TIGHTEST, ROOMIEST, SCORED };

static enum within within_node(enum placement_policy policy)
{
	static const uint8_t table[] = {
#define POLICY(name, spelling, within, what) within,
#include "core/placement/placement_policies.def"
#undef POLICY
	};

	return (enum within)table[policy];
}

bool placement_wants_room(const struct placement *p, const struct placement_request *request)
{
	return within_node(policy_for(p, request)) == ROOMIEST;
}

/* Puts one of a container's GPUs or instances there, an instance where it spoils least. */
static bool try_on(const struct placement *p, struct placement_gpu *gpu,
		   const struct placement_request *request, const struct placement_container *want)
{
	uint8_t starts[PLACEMENT_STARTS];
	int profile = PLACEMENT_NONE;

	if (want->profile) {
		profile = placement_find_profile(p, gpu, want->profile);
		if (profile < 0 || !placement_find_starts(p, gpu, profile, starts))
			return false;
	}
	placement_put(p, gpu, request->class, want, profile, want->profile ? starts[0] : 0);
	return true;
}

/* Whole GPUs are all alike. */
int32_t placement_score_gpu(const struct placement *p, const struct placement_host *host,
			    const struct placement_base *base, struct placement_view *view,
			    const struct placement_request *request,
			    const struct placement_container *want, uint32_t device)
{
	enum placement_policy policy = policy_for(p, request);
	enum within within = within_node(policy);
	struct placement_gpu with = host->gpu[device];
	bool foreseen = policy == PLACEMENT_FORESIGHT;
	int32_t score;

	if (want->exclusive)
		return 0;
	if (within != SCORED || want->devices > 1 || (want->profile && !foreseen))
		return within == ROOMIEST ? view->left[device] : -view->left[device];
	if (!try_on(p, &with, request, want))
		return 0;
	if (with.holders == base->view.holders[device]) {
		uint32_t part = placement_holder(want->devices);
		uint32_t less = placement_leaving(part, request->stays);

		with.holders += part - less;
		with.leaving += less;
	}
	placement_view_gpu(p, &with, view, device);
	score = foreseen ? foresight(p, base, view) : fgd(p, base, view);
	placement_view_gpu(p, &host->gpu[device], view, device);
	return score;
}
