/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The usual pods, and what they could not use of a node: FGD's fragmentation, and foresight's.
 *
 * Usual pods that ask for the same GPUs are one `usual`. How many of them could come to a node
 * depends on its model and its free CPU only: counted once for each model and CPU step, so that a
 * node is measured in (usuals x GPUs) steps.
 */
#include "core/placement_machine.h"

static struct placement_usual usual_of(const struct placement *p,
				       const struct placement_request *request)
{
	const struct placement_container *it = &request->container[0];

	return (struct placement_usual){
		.memory_mib = (uint32_t)((it->memory_bytes + (1 << 20) - 1) >> 20),
		.compute = it->compute_milli,
		.devices = it->devices,
		.class = p->level[request->class],
		.exclusive = it->exclusive,
	};
}

static bool same_usual(const struct placement_usual *a, const struct placement_usual *b)
{
	return a->memory_mib == b->memory_mib && a->compute == b->compute &&
	       a->devices == b->devices && a->class == b->class && a->exclusive == b->exclusive;
}

static int find_usual(struct placement *p, const struct placement_usual *it)
{
	for (uint32_t i = 0; i < p->usuals_size; i++)
		if (same_usual(&p->usuals[i], it))
			return (int)i;
	if (p->usuals_size == p->limits.typicals)
		return -ENOSPC;
	p->usuals[p->usuals_size] = *it;
	return (int)p->usuals_size++;
}

static void add_step(struct placement *p, int64_t cpu)
{
	uint32_t at = p->steps_size;

	for (uint32_t i = 0; i < p->steps_size; i++)
		if (p->cpu_steps[i] == cpu)
			return;
	for (; at > 0 && p->cpu_steps[at - 1] > cpu; at--)
		p->cpu_steps[at] = p->cpu_steps[at - 1];
	p->cpu_steps[at] = cpu;
	p->steps_size++;
}

static int learn_one(struct placement *p, const struct placement_request *request, uint32_t count)
{
	struct placement_usual usual = usual_of(p, request);
	int at;

	p->usual_count += count;
	if (!usual.devices)
		return 0;
	if (p->learned_size == p->limits.typicals)
		return -ENOSPC;
	at = find_usual(p, &usual);
	if (at < 0)
		return at;
	p->usual_gpu_count += count;
	p->learned[p->learned_size++] = (struct placement_learned){
		.models = request->models,
		.cpu = request->container[0].cpu_milli,
		.count = count,
		.usual = (uint16_t)at,
	};
	add_step(p, request->container[0].cpu_milli);
	return 0;
}

int placement_learn(struct placement *p, const struct placement_request *requests,
		    const uint32_t *counts, size_t size)
{
	int r = 0;

	for (size_t i = 0; i < size; i++)
		if (placement_valid(&requests[i]) < 0 || requests[i].containers == 0 ||
		    counts[i] > 1 << 20)
			return -EINVAL;
	p->learned_size = p->usuals_size = p->steps_size = 0;
	p->usual_count = p->usual_gpu_count = 0;
	for (size_t i = 0; i < size && r == 0; i++)
		r = learn_one(p, &requests[i], counts[i]);
	p->weights_stale = true;
	return r;
}

static uint32_t *weight_row(const struct placement *p, int model, uint32_t step)
{
	return p->weights + ((size_t)model * (p->limits.typicals + 1) + step) * p->limits.typicals;
}

/* How scarce each model is: what is asked for by name of it, over its part of the cluster. A pod
 * that accepts several models counts for each by what there is of it. */
static void find_prices(struct placement *p)
{
	double there[PLACEMENT_MODELS] = {0}, asked[PLACEMENT_MODELS] = {0}, all = 0, demand = 0;

	for (uint32_t n = 0; n < p->node_end; n++)
		if (p->hosts[n].present)
			there[p->hosts[n].model] += p->hosts[n].devices;
	for (int m = 0; m < PLACEMENT_MODELS; m++)
		all += there[m];
	for (uint32_t i = 0; i < p->learned_size; i++) {
		const struct placement_learned *it = &p->learned[i];
		const struct placement_usual *usual = &p->usuals[it->usual];
		double milli = (double)it->count * usual->devices * usual->compute, choice = 0;

		demand += milli;
		for (int m = 0; m < PLACEMENT_MODELS; m++)
			choice += it->models >> m & 1 ? there[m] : 0;
		for (int m = 0; m < PLACEMENT_MODELS && choice > 0; m++)
			asked[m] += it->models >> m & 1 ? milli * there[m] / choice : 0;
	}
	for (int m = 0; m < PLACEMENT_MODELS; m++)
		p->price[m] = there[m] > 0 && demand > 0 ? asked[m] / demand / (there[m] / all) : 0;
}

/* Host CPU that comes with a milli of GPU, over the usual pods. */
static void find_cpu(struct placement *p)
{
	double cpu = 0, milli = 0;

	for (uint32_t i = 0; i < p->learned_size; i++) {
		const struct placement_learned *it = &p->learned[i];
		const struct placement_usual *usual = &p->usuals[it->usual];

		cpu += (double)it->count * (double)it->cpu;
		milli += (double)it->count * usual->devices * usual->compute;
	}
	p->cpu_per_milli = milli > 0 ? cpu / milli : 0;
}

void placement_weigh(struct placement *p)
{
	for (int model = 0; model < PLACEMENT_MODELS; model++) {
		for (uint32_t step = 0; step <= p->steps_size; step++)
			memset(weight_row(p, model, step), 0, p->usuals_size * sizeof(uint32_t));
		for (uint32_t i = 0; i < p->learned_size; i++) {
			const struct placement_learned *it = &p->learned[i];

			if (it->models && !(it->models >> model & 1))
				continue;
			for (uint32_t step = 1; step <= p->steps_size; step++)
				if (it->cpu <= p->cpu_steps[step - 1])
					weight_row(p, model, step)[it->usual] += it->count;
		}
	}
	find_prices(p);
	find_cpu(p);
	p->weights_stale = false;
}

/* The pods of each usual that could come to a node of this model with this much CPU left. */
const uint32_t *placement_weights_for(const struct placement *p, int model, int64_t cpu)
{
	uint32_t low = 0, high = p->steps_size;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (p->cpu_steps[middle] <= cpu)
			low = middle + 1;
		else
			high = middle;
	}
	return weight_row(p, model, low);
}

/* Which GPUs could take one pod of the usual kind, a bit each. */
static uint32_t takers(const struct placement_view *view, const struct placement_usual *usual)
{
	const int32_t *compute = view->compute[usual->class], *memory = view->memory[usual->class];
	uint32_t set = 0;

	if (usual->exclusive) {
		for (int i = 0; i < PLACEMENT_DEVICES; i++)
			set |= (uint32_t)(view->empty[i] & (compute[i] >= (int32_t)usual->compute) &
					  (memory[i] >= (int32_t)usual->memory_mib))
			       << i;
		return set;
	}
	for (int i = 0; i < PLACEMENT_DEVICES; i++)
		set |= (uint32_t)((compute[i] >= (int32_t)usual->compute) &
				  (memory[i] >= (int32_t)usual->memory_mib))
		       << i;
	return set;
}

/* Σ over the usual pods of the milli that the pod could not use: all that is left where the pod
 * does not fit at all, else what is left on GPUs that cannot take it. */
int64_t placement_waste(const struct placement *p, const struct placement_view *view)
{
	const uint32_t *weights;
	int64_t useless = 0, coming = 0;

	if (view->total == 0)
		return 0;
	weights = placement_weights_for(p, view->model, view->cpu);
	for (uint32_t i = 0; i < p->usuals_size; i++) {
		uint32_t set;
		int64_t stranded = 0;

		if (!weights[i])
			continue;
		set = takers(view, &p->usuals[i]);
		if (placement_bits(set) < p->usuals[i].devices)
			continue;
		for (int k = 0; k < view->devices; k++)
			stranded += set >> k & 1 ? 0 : view->left[k];
		coming += weights[i];
		useless += weights[i] * stranded;
	}
	return useless + (p->usual_count - coming) * view->total;
}

/* What the node loses in the long run, in milli:
 *   - of each GPU what is left, times the chance that none of the next pods that need a GPU can
 *     use it (several are drawn: one that fits is enough);
 *   - the GPU that the node's CPU will not suffice for, at the usual CPU per GPU;
 *   - less what is left: of two places equally good for those to come, take the one that costs
 *     less room. Without overcommit all places cost the same. */
double placement_foresight(const struct placement *p, const struct placement_view *view)
{
	enum { DRAWS = 2 };
	const double cpu_weight = 2.0, room_weight = 0.6;
	const uint32_t *weights = placement_weights_for(p, view->model, view->cpu);
	uint32_t chance[PLACEMENT_DEVICES] = {0};
	double lost = 0, demand = 0, short_of;

	for (uint32_t i = 0; i < p->usuals_size && view->total > 0; i++) {
		uint32_t set = weights[i] ? takers(view, &p->usuals[i]) : 0;

		if (placement_bits(set) < p->usuals[i].devices)
			continue;
		for (int k = 0; k < view->devices; k++)
			chance[k] += set >> k & 1 ? weights[i] : 0;
	}
	for (int k = 0; k < view->devices; k++) {
		double none = 1, once;

		if (view->left[k] <= 0)
			continue;
		once = p->usual_gpu_count ? 1 - (double)chance[k] / p->usual_gpu_count : 1;
		for (int n = 0; n < DRAWS; n++)
			none *= once;
		lost += view->left[k] * (none - room_weight);
		demand += view->empty[k] ? view->left[k] : view->left[k] + p->surplus;
	}
	short_of = p->cpu_per_milli > 0 ? demand - (double)view->cpu / p->cpu_per_milli : 0;
	return lost + (short_of > 0 ? cpu_weight * short_of : 0);
}
