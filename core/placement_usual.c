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
	p->usual_stale = p->remainders_stale = true;
	return r;
}

static uint32_t *weight_row(const struct placement *p, int model, uint32_t step)
{
	return p->weights + ((size_t)model * (p->limits.typicals + 1) + step) * p->limits.typicals;
}

/* How scarce each model is: what is asked for by name of it, over its part of the cluster. A pod
 * that accepts several models counts for each by what there is of it. */
static bool prices_changed(struct placement *p)
{
	double there[PLACEMENT_MODELS], asked[PLACEMENT_MODELS] = {0}, all = 0, demand = 0;
	bool changed = false;

	for (int m = 0; m < PLACEMENT_MODELS; m++) {
		there[m] = (double)p->there[m];
		all += there[m];
	}
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
	for (int m = 0; m < PLACEMENT_MODELS; m++) {
		double price =
			there[m] > 0 && demand > 0 ? asked[m] / demand / (there[m] / all) : 0;

		changed |= price < p->price[m] || price > p->price[m];
		p->price[m] = price;
	}
	return changed && p->config.policy == PLACEMENT_FORESIGHT;
}

/* What policies normalise by: the largest node. */
static bool most_changed(struct placement *p)
{
	int64_t cpu = 1, gpu = 1;
	bool changed;

	if (!p->most_stale)
		return false;
	for (uint32_t n = 0; n < p->node_end; n++) {
		const struct placement_host *host = &p->hosts[n];
		int64_t sum = placement_milli(host);

		if (!host->present)
			continue;
		cpu = host->cpu > cpu ? host->cpu : cpu;
		gpu = sum > gpu ? sum : gpu;
	}
	changed = cpu != p->most_cpu || gpu != p->most_gpu;
	p->most_cpu = cpu;
	p->most_gpu = gpu;
	p->most_stale = false;
	return changed;
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

/* What is left, times the chance that none of the next pods that need a GPU can use it: several are
 * drawn, one that fits is enough. */
static double none_of(double chance)
{
	double once = 1 - chance;

	return once * once * once * once;
}

/* Room on a GPU that is in use, in steps: for the classes with the least and with the most
 * of it. */
struct room {
	int low, top;
};

static bool fits_room(const struct placement *p, const struct placement_usual *usual,
		      struct room room)
{
	int need = ((int)usual->compute + PLACEMENT_STEP - 1) / PLACEMENT_STEP;

	if (usual->exclusive || usual->devices != 1 || need > room.top)
		return false;
	return (usual->class == p->top && p->top != p->low) || need <= room.low;
}

static struct room room_after(const struct placement *p, const struct placement_usual *usual,
			      struct room room)
{
	int need = ((int)usual->compute + PLACEMENT_STEP - 1) / PLACEMENT_STEP;
	bool top_only = usual->class == p->top && p->top != p->low;
	struct room after = {room.low - (top_only ? 0 : need), room.top - need};

	if (after.low > after.top)
		after.low = after.top;
	return after;
}

static double left_of(const struct placement *p, struct room room)
{
	int left = room.top * PLACEMENT_STEP - p->surplus;

	return left > 0 ? left : 0;
}

/* How many of the usual pods that need a GPU could come to such a GPU; Σ over them of what each
 * would leave useless, if asked for. */
static double comers(const struct placement *p, struct room room, double *ret_useless)
{
	double sum = 0, useless = 0;

	for (uint32_t i = 0; i < p->learned_size; i++) {
		const struct placement_usual *usual = &p->usuals[p->learned[i].usual];
		struct room after;

		if (!fits_room(p, usual, room))
			continue;
		sum += p->learned[i].count;
		if (!ret_useless)
			continue;
		after = room_after(p, usual, room);
		if (left_of(p, after) > 0)
			useless += p->learned[i].count * left_of(p, after) *
				   none_of(comers(p, after, NULL) / p->usual_gpu_count);
	}
	if (ret_useless)
		*ret_useless = useless;
	return sum;
}

static float *remainder_at(const struct placement *p, struct room room)
{
	return &p->remainders[room.low * PLACEMENT_TOP_STEPS + room.top];
}

static int steps(int32_t milli, int most)
{
	int n = milli < 0 ? 0 : milli / PLACEMENT_STEP;

	return n < most ? n : most - 1;
}

static void find_remainders(struct placement *p)
{
	int lows = PLACEMENT_LOW_STEPS, tops = PLACEMENT_TOP_STEPS;

	if (!p->remainders_stale || p->config.policy != PLACEMENT_FORESIGHT || !p->usual_gpu_count)
		return;
	p->remainders_stale = false;
	if (tops > steps(1000 + p->surplus, tops) + 1)
		tops = steps(1000 + p->surplus, tops) + 1;
	for (int top = 0; top < tops; top++) {
		/* Without overcommit all classes have the same room. */
		for (int low = p->surplus ? 0 : top; low <= top && low < lows; low++) {
			struct room room = {low, top};
			double useless, sum = comers(p, room, &useless);

			*remainder_at(p, room) = sum > 0 ? (float)(useless / sum) : 0;
		}
	}
}

/* What the next pod on the GPU will probably leave useless of it. */
static double remainder_of(const struct placement *p, const struct placement_view *view, int gpu)
{
	struct room room = {steps(view->compute[p->low][gpu], PLACEMENT_LOW_STEPS),
			    steps(view->compute[p->top][gpu], PLACEMENT_TOP_STEPS)};

	if (room.low > room.top)
		room.low = room.top;
	return *remainder_at(p, room);
}

/* What the node loses in the long run, in milli:
 *   - of each GPU what is left, where none of the next pods can use it; else what the one that can
 *     will leave useless (a GPU with 530 left is not worth 530 where most pods leave 60 of it);
 *   - the GPU that the node's CPU will not suffice for, at the usual CPU per GPU. What may be
 *     promised beyond a GPU that is in use goes to small pods, which bring more CPU;
 *   - less what is left: of two places equally good for those to come, take the one that costs
 *     less room. Without overcommit all places cost the same.
 * The three constants are the best of a search over openb's default list; the other lists, that
 * they were not chosen by, gain as well (docs/placement.md). */
double placement_foresight(const struct placement *p, const struct placement_view *view)
{
	const double cpu_weight = 2.0, room_weight = 0.42, surplus_cpu = 2.5;
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
		double none = 1, left = view->left[k];

		if (left <= 0)
			continue;
		if (p->usual_gpu_count)
			none = none_of((double)chance[k] / p->usual_gpu_count);
		lost += left * (none - room_weight);
		demand += left;
		if (view->empty[k])
			continue;
		lost += (1 - none) * remainder_of(p, view, k);
		demand += surplus_cpu * p->surplus;
	}
	short_of = p->cpu_per_milli > 0 ? demand - (double)view->cpu / p->cpu_per_milli : 0;
	return lost + (short_of > 0 ? cpu_weight * short_of : 0);
}

bool placement_stale(const struct placement *p)
{
	return p->usual_stale || p->nodes_stale;
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
	if (p->usual_stale) {
		find_weights(p);
		find_cpu(p);
		find_remainders(p);
	}
	changed |= prices_changed(p);
	changed |= most_changed(p);
	p->usual_stale = p->nodes_stale = false;
	if (changed)
		forget(p);
}
