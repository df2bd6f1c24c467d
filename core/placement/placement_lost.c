/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foresight: the part of a node's GPUs that no pod will use once the node is full.
 * (placement_worth.c values what is free.)
 */
#include "core/placement/placement_machine.h"

/* The chance that none of the next pods that need a GPU can use a room: several are drawn, one that
 * fits is enough. */
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
	return (p->level[usual->class] == p->top && p->top != p->low) || need <= room.low;
}

static struct room room_after(const struct placement *p, const struct placement_usual *usual,
			      struct room room)
{
	int need = ((int)usual->compute + PLACEMENT_STEP - 1) / PLACEMENT_STEP;
	bool top_only = p->level[usual->class] == p->top && p->top != p->low;
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

	memset(p->remainders, 0, (size_t)lows * (size_t)tops * sizeof(*p->remainders));
	if (!p->usual_gpu_count)
		return;
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

/* The part of the GPU that its next pod will probably leave useless. */
static double remainder_of(const struct placement *p, const struct placement_view *view, int gpu)
{
	struct room room = {view->step[gpu], view->step[gpu]};

	if (view->step[gpu] == PLACEMENT_ODD_STEP)
		room = (struct room){steps(view->compute[p->low][gpu], PLACEMENT_LOW_STEPS),
				     steps(view->compute[p->top][gpu], PLACEMENT_TOP_STEPS)};
	if (room.low > room.top)
		room.low = room.top;
	return *remainder_at(p, room);
}

/* How many of the usual pods could come to each GPU, one by one. */
static void chances_of_each(const struct placement *p, const struct placement_view *view,
			    uint32_t *chance)
{
	const uint32_t *weights = p->weights + placement_weights_for(p, view->model, view->cpu);

	for (uint32_t i = 0; i < p->usuals_size; i++) {
		int32_t takes[PLACEMENT_DEVICES] = {0};

		if (!weights[i] ||
		    placement_takers(p, view, &p->usuals[i], takes) < p->usuals[i].devices)
			continue;
		for (int k = 0; k < view->devices; k++)
			chance[k] += takes[k] ? weights[i] : 0;
	}
}

/* The node's loss in the long run, in milli:
 *   - the room of each GPU, if none of the next pods can use it; else the part that the one that
 *     can will leave useless (a GPU with 530 left is not worth 530 where most pods leave 60 of it);
 *   - the GPU that the node's CPU will not suffice for, at the usual CPU per GPU. What may be
 *     promised beyond a GPU that is in use goes to small pods, which bring more CPU;
 *   - less the room that is left: of two places equally good for later pods, take the one that
 *     costs less room. Without overcommit all places cost the same.
 * The three constants are the best of a search over openb's default list; the other lists, which
 * they were not chosen by, gain as well (docs/placement-study.md). */
double placement_lost(const struct placement *p, const struct placement_view *view)
{
	const double cpu_weight = 2.0, room_weight = 0.42, surplus_cpu = 2.5;
	uint32_t chance[PLACEMENT_DEVICES] = {0};
	double lost = 0, demand = 0, short_of;

	if (placement_in_steps(p, view))
		placement_chances(p, view, chance);
	else if (view->total > 0)
		chances_of_each(p, view, chance);
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

void placement_find_lost(struct placement *p)
{
	find_cpu(p);
	find_remainders(p);
}
