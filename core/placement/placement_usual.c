/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The usual pods, and the part of a node that they could not use: FGD's fragmentation.
 *
 * Usual pods that ask for the same GPUs are one `usual`. How many of them could come to a node
 * depends on its model and its free CPU only: counted once for each model and CPU step, so that a
 * node is measured in (usuals x GPUs) steps.
 */
#include "core/placement/placement_machine.h"

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
		.in_steps = !it->exclusive && !it->profile && !it->memory_bytes &&
			    it->devices == 1 && it->compute_milli,
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
	uint32_t into;
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
	p->pinned |= request->models;
	into = p->learned_size++;
	for (; into > 0 && p->learned[into - 1].cpu > request->container[0].cpu_milli; into--)
		p->learned[into] = p->learned[into - 1];
	p->learned[into] = (struct placement_learned){
		.models = request->models,
		.cpu = request->container[0].cpu_milli,
		.count = count,
		.usual = (uint16_t)at,
	};
	add_step(p, request->container[0].cpu_milli);
	return 0;
}

static void count_kin(struct placement *p)
{
	for (uint32_t i = 0; i < p->learned_size; i++) {
		struct placement_learned *it = &p->learned[i];

		it->kin = 0;
		for (uint32_t j = 0; j < p->learned_size; j++)
			if (p->learned[j].usual == it->usual && p->learned[j].models == it->models)
				it->kin += p->learned[j].count;
	}
}

static void forget_usuals(struct placement *p)
{
	p->learned_size = p->usuals_size = p->steps_size = 0;
	p->usual_count = p->usual_gpu_count = 0;
	p->pinned = 0;
}

int placement_learn(struct placement *p, const struct placement_request *requests,
		    const uint32_t *counts, size_t size)
{
	int r = 0;

	for (size_t i = 0; i < size; i++)
		if (placement_valid(&requests[i]) < 0 || requests[i].containers == 0 ||
		    counts[i] > 1 << 20)
			return -EINVAL;
	if (p->on_trial)
		return -EBUSY;
	forget_usuals(p);
	for (size_t i = 0; i < size && r == 0; i++)
		r = learn_one(p, &requests[i], counts[i]);
	if (r == 0 && (size_t)(p->steps_size + 1) * p->usuals_size > placement_cells(&p->limits))
		r = -ENOSPC;
	if (r < 0)
		forget_usuals(p);
	count_kin(p);
	placement_find_asks(p);
	p->usual_stale = p->lost_stale = true;
	return r;
}

static size_t weight_row(const struct placement *p, int model, uint32_t step)
{
	return (size_t)model * placement_cells(&p->limits) + (size_t)step * p->usuals_size;
}

/* The largest node, by which policies normalise. */
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

/* Parts of a GPU by their size, then whole ones by their number. */
static bool comes_before(const struct placement_usual *a, const struct placement_usual *b)
{
	if (a->exclusive != b->exclusive)
		return b->exclusive;
	return a->exclusive ? a->devices < b->devices : a->compute < b->compute;
}

static void find_order(struct placement *p)
{
	uint16_t parts = 0;

	p->summed = p->plain;
	for (uint32_t u = 0; u < p->usuals_size; u++) {
		const struct placement_usual *it = &p->usuals[u];
		uint32_t at = u;

		for (; at > 0 && comes_before(it, &p->usuals[p->order[at - 1]]); at--)
			p->order[at] = p->order[at - 1];
		p->order[at] = (uint16_t)u;
		p->summed &= it->in_steps ||
			     (it->exclusive && !it->memory_mib && it->compute == PLACEMENT_WHOLE);
		parts += !it->exclusive;
	}
	for (int step = 0; step < PLACEMENT_LOW_STEPS; step++) {
		uint16_t n = step ? p->parts_upto[step - 1] : 0;

		while (n < parts &&
		       p->usuals[p->order[n]].compute <= (uint32_t)step * PLACEMENT_STEP)
			n++;
		p->parts_upto[step] = n;
	}
	for (int devices = 0; devices <= PLACEMENT_DEVICES; devices++) {
		uint16_t n = devices ? p->wholes_upto[devices - 1] : parts;

		while (n < p->usuals_size && p->usuals[p->order[n]].devices <= devices)
			n++;
		p->wholes_upto[devices] = n;
	}
}

/* How many CPU steps there are up to this many milli: so many cores, so many steps at least. */
enum { HINT_MILLI = 512 };

static void find_hints(struct placement *p)
{
	uint32_t n = 0;

	for (int64_t i = 0; i < PLACEMENT_HINTS; i++) {
		while (n < p->steps_size && p->cpu_steps[n] <= i * HINT_MILLI)
			n++;
		p->step_hints[i] = (uint16_t)n;
	}
}

static void sum_row(struct placement *p, size_t row)
{
	uint32_t parts = p->wholes_upto[0], sum = 0;

	for (uint32_t i = 0; i < p->usuals_size; i++) {
		sum = i == parts ? 0 : sum;
		p->sums[row + i] = sum += p->weights[row + p->order[i]];
	}
}

static void find_weights(struct placement *p)
{
	find_order(p);
	find_hints(p);
	for (int model = 0; model < PLACEMENT_MODELS; model++) {
		for (uint32_t step = 0; step <= p->steps_size; step++)
			memset(p->weights + weight_row(p, model, step), 0,
			       p->usuals_size * sizeof(uint32_t));
		for (uint32_t i = 0; i < p->learned_size; i++) {
			const struct placement_learned *it = &p->learned[i];

			if (it->models && !(it->models >> model & 1))
				continue;
			for (uint32_t step = 1; step <= p->steps_size; step++)
				if (it->cpu <= p->cpu_steps[step - 1])
					p->weights[weight_row(p, model, step) + it->usual] +=
						it->count;
		}
		for (uint32_t step = 0; step <= p->steps_size; step++)
			sum_row(p, weight_row(p, model, step));
	}
}

/* The place of a row: how many pods of each usual could come to a node of this model with this much
 * CPU left. */
size_t placement_weights_for(const struct placement *p, int model, int64_t cpu)
{
	int64_t hint = cpu > 0 ? cpu / HINT_MILLI : 0;
	uint32_t step = p->step_hints[hint < PLACEMENT_HINTS ? hint : PLACEMENT_HINTS - 1];

	while (step < p->steps_size && p->cpu_steps[step] <= cpu)
		step++;
	return weight_row(p, model, step);
}

bool placement_in_steps(const struct placement *p, const struct placement_view *view)
{
	bool odd = !p->summed;

	for (int k = 0; k < view->devices; k++)
		odd |= view->step[k] == PLACEMENT_ODD_STEP;
	return !odd;
}

/* A GPU can take parts that are not larger than what is left of it. An empty one can also take pods
 * that want no more GPUs than are empty. */
void placement_chances(const struct placement *p, const struct placement_view *view,
		       uint32_t ret_chance[PLACEMENT_DEVICES])
{
	const uint32_t *row = p->sums + placement_weights_for(p, view->model, view->cpu);
	uint32_t empties = 0, wholes;

	for (int k = 0; k < view->devices; k++) {
		uint16_t upto = p->parts_upto[view->step[k]];

		ret_chance[k] = upto ? row[upto - 1] : 0;
		empties += view->empty[k] && view->step[k] == PLACEMENT_LOW_STEPS - 1;
	}
	if (p->wholes_upto[empties] == p->wholes_upto[0])
		return;
	wholes = row[p->wholes_upto[empties] - 1];
	for (int k = 0; k < view->devices; k++)
		if (view->empty[k] && view->step[k] == PLACEMENT_LOW_STEPS - 1)
			ret_chance[k] += wholes;
}

/* Eight GPUs at a time: a number of turns that the compiler knows, and most nodes have no more. */
static inline int takers_from(const struct placement_view *view, const int32_t *compute,
			      const int32_t *memory, const struct placement_usual *usual,
			      int32_t *ret_takes)
{
	int32_t need = (int32_t)usual->compute, mib = (int32_t)usual->memory_mib, n = 0;
	int end = view->devices > PLACEMENT_DEVICES / 2 ? PLACEMENT_DEVICES : 0;
	int from = 0;

	do {
		for (int i = 0; i < PLACEMENT_DEVICES / 2; i++)
			ret_takes[from + i] =
				(compute[from + i] >= need) & (memory[from + i] >= mib);
		for (int i = 0; i < PLACEMENT_DEVICES / 2 && usual->exclusive; i++)
			ret_takes[from + i] &= view->empty[from + i];
		for (int i = 0; i < PLACEMENT_DEVICES / 2; i++)
			n += ret_takes[from + i];
		from += PLACEMENT_DEVICES / 2;
	} while (from < end);
	return n;
}

int placement_takers(const struct placement *p, const struct placement_view *view,
		     const struct placement_usual *usual, int32_t ret_takes[PLACEMENT_DEVICES])
{
	if (usual->profile)
		return 0;
	return takers_from(view, view->compute[p->level[usual->class]],
			   view->memory[p->level[usual->class]], usual, ret_takes);
}

/* Likewise, one by one. */
static int64_t waste_of_each(const struct placement *p, const struct placement_view *view)
{
	const uint32_t *weights = p->weights + placement_weights_for(p, view->model, view->cpu);
	int64_t useless = 0, coming = 0;

	for (uint32_t i = 0; i < p->usuals_size; i++) {
		int32_t takes[PLACEMENT_DEVICES] = {0};
		int64_t stranded = 0;

		if (!weights[i] ||
		    placement_takers(p, view, &p->usuals[i], takes) < p->usuals[i].devices)
			continue;
		for (int k = 0; k < view->devices; k++)
			stranded += takes[k] ? 0 : view->left[k];
		coming += weights[i];
		useless += weights[i] * stranded;
	}
	return useless + (p->usual_count - coming) * view->total;
}

/* Σ over the usual pods of the milli that the pod could not use: all that is left where the pod
 * does not fit at all, else what is left on GPUs that cannot take it. */
int64_t placement_waste(const struct placement *p, const struct placement_view *view)
{
	uint32_t chance[PLACEMENT_DEVICES];
	int64_t useful = 0;

	if (view->total == 0)
		return 0;
	if (!placement_in_steps(p, view))
		return waste_of_each(p, view);
	placement_chances(p, view, chance);
	for (int k = 0; k < view->devices; k++)
		useful += (int64_t)chance[k] * view->left[k];
	return (int64_t)p->usual_count * view->total - useful;
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
		p->hosts[i].measured.known = p->briefs[i].measured.known = false;
}

/* Works out everything that follows from the usual pods and the nodes. If that has changed, no
 * score holds any more, and nothing that is remembered of nodes. */
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
	if (p->on_trial)
		p->turnover_before = p->turnover;
}
