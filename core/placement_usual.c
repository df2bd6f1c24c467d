/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The usual pods, and what they could not use of a node: FGD's fragmentation.
 *
 * Usual pods that ask for the same GPUs are one `usual`. How many of them could come to a node
 * depends on its model and its free CPU only: counted once for each model and CPU step, so that a
 * node is measured in (usuals x GPUs) steps.
 */
#include "core/placement_machine.h"

static struct placement_usual usual_of(const struct placement_request *request)
{
	const struct placement_container *it = &request->container[0];
	uint64_t mib = (it->memory_bytes + (1 << 20) - 1) >> 20;

	return (struct placement_usual){
		.memory_mib = mib < INT32_MAX ? (uint32_t)mib : INT32_MAX,
		.compute = it->compute_milli,
		.devices = it->devices,
		.class = request->class,
		.profile = it->profile,
		.exclusive = it->exclusive,
	};
}

/* How much of GPUs such a pod takes. Memory counts as compute does, of the largest GPU there is. */
uint64_t placement_usual_milli(const struct placement *p, const struct placement_usual *usual)
{
	uint64_t each = usual->compute;

	if (usual->exclusive || usual->profile)
		each = each > PLACEMENT_WHOLE ? each : PLACEMENT_WHOLE;
	else if (p->most_gpu_mib > 0 && usual->memory_mib * 1000ull / p->most_gpu_mib > each)
		each = usual->memory_mib * 1000ull / p->most_gpu_mib;
	return usual->devices * (each ? each : 1);
}

static bool same_usual(const struct placement_usual *a, const struct placement_usual *b)
{
	return a->memory_mib == b->memory_mib && a->compute == b->compute &&
	       a->devices == b->devices && a->class == b->class && a->profile == b->profile &&
	       a->exclusive == b->exclusive;
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
	struct placement_usual usual = usual_of(request);
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

/* Each usual's asks in a row. */
static void find_asks(struct placement *p)
{
	p->asks_size = 0;
	for (uint32_t u = 0; u < p->usuals_size; u++) {
		uint32_t first = p->asks_size;

		for (uint32_t i = 0; i < p->learned_size; i++) {
			float cpu = (float)p->learned[i].cpu;
			uint32_t a = first;

			if (p->learned[i].usual != u)
				continue;
			while (a < p->asks_size && (p->asks[a].cpu < cpu || p->asks[a].cpu > cpu))
				a++;
			if (a == p->asks_size)
				p->asks[p->asks_size++] =
					(struct placement_ask){.cpu = cpu,
							       .per_cpu = cpu > 0 ? 1 / cpu : 0,
							       .usual = (uint16_t)u};
			p->learned[i].ask = (uint16_t)a;
		}
	}
}

static void forget_usuals(struct placement *p)
{
	p->learned_size = p->usuals_size = p->steps_size = 0;
	p->usual_count = p->usual_gpu_count = 0;
}

int placement_learn(struct placement *p, const struct placement_request *requests,
		    const uint32_t *counts, size_t size)
{
	int r = 0;

	for (size_t i = 0; i < size; i++)
		if (placement_valid(&requests[i]) < 0 || requests[i].containers == 0 ||
		    counts[i] > 1 << 20)
			return -EINVAL;
	forget_usuals(p);
	for (size_t i = 0; i < size && r == 0; i++)
		r = learn_one(p, &requests[i], counts[i]);
	if (r == 0 && (size_t)(p->steps_size + 1) * p->usuals_size > placement_cells(&p->limits))
		r = -ENOSPC;
	if (r < 0)
		forget_usuals(p);
	find_asks(p);
	p->usual_stale = p->lost_stale = true;
	return r;
}

static uint32_t *weight_row(const struct placement *p, int model, uint32_t step)
{
	return p->weights + (size_t)model * placement_cells(&p->limits) +
	       (size_t)step * p->usuals_size;
}

/* What policies normalise by: the largest node. */
static bool most_changed(struct placement *p)
{
	int64_t cpu = 1, gpu = 1;
	uint64_t mib = 0;
	bool changed;

	if (!p->nodes_stale)
		return false;
	for (uint32_t n = 0; n < p->node_end; n++) {
		const struct placement_host *host = &p->hosts[n];
		int64_t sum = placement_milli(host);

		if (!host->present)
			continue;
		cpu = host->cpu > cpu ? host->cpu : cpu;
		gpu = sum > gpu ? sum : gpu;
		for (int i = 0; i < host->devices; i++) {
			uint64_t here = host->gpu[i].is.memory_bytes >> 20;

			mib = here > mib ? here : mib;
		}
	}
	p->most_gpu_mib = mib;
	changed = cpu != p->most_cpu || gpu != p->most_gpu;
	p->most_cpu = cpu;
	p->most_gpu = gpu;
	return changed;
}

static void find_weights(struct placement *p)
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
uint32_t placement_takers(const struct placement *p, const struct placement_view *view,
			  const struct placement_usual *usual)
{
	const int32_t *compute = view->compute[p->level[usual->class]];
	const int32_t *memory = view->memory[p->level[usual->class]];
	uint32_t set = 0;

	if (usual->profile)
		return 0;
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
		set = placement_takers(p, view, &p->usuals[i]);
		if (placement_bits(set) < p->usuals[i].devices)
			continue;
		for (int k = 0; k < view->devices; k++)
			stranded += set >> k & 1 ? 0 : view->left[k];
		coming += weights[i];
		useless += weights[i] * stranded;
	}
	return useless + (p->usual_count - coming) * view->total;
}

bool placement_stale(const struct placement *p)
{
	return p->usual_stale || p->nodes_stale || placement_prices_due(p);
}

static void forget(struct placement *p)
{
	for (uint32_t i = 0; i < p->limits.shapes; i++)
		p->shapes[i].live = false;
	for (uint32_t i = 0; i < p->node_end; i++)
		p->hosts[i].waste_known = false;
}

/* Everything that follows from the usual pods and the nodes. Where it is not as it was no score is,
 * and nothing that is remembered of nodes. */
void placement_weigh(struct placement *p)
{
	bool changed = p->usual_stale;

	if (!placement_stale(p))
		return;
	if (p->usual_stale)
		find_weights(p);
	if (p->lost_stale && p->config.policy == PLACEMENT_FORESIGHT) {
		placement_find_lost(p);
		p->lost_stale = false;
	}
	changed |= most_changed(p);
	if (p->usual_stale || placement_prices_due(p)) {
		placement_find_prices(p);
		changed |= p->config.policy == PLACEMENT_FORESIGHT;
	}
	p->usual_stale = p->nodes_stale = false;
	if (changed)
		forget(p);
}

void placement_reprice(struct placement *p)
{
	p->turnover = 1u << 31; /* more than any quarter */
}
