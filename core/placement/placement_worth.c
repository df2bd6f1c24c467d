/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foresight: the worth of a node to the pods that usually come.
 *
 * The room of a node is counted in pods: for each usual pod (an *ask*) how many of it would fit, if
 * only such came. Room that is taken now counts as well, less for each pod that has to leave first:
 * a node with eight GPUs, of which one pod holds four, will soon take an 8-GPU pod again, and one
 * where four pods hold one each will not. The worth of a node is
 *
 *	Σ over the asks: price x room  -  5 x what no pod will use (core/placement/placement_lost.c)
 *
 * in milli, and a pod goes where it takes least of it. The price of an ask is its part of the
 * demand divided by the square of the room for it in the whole cluster: plenty of room costs
 * nothing; room that becomes rare (GPUs of a model that some pods insist on, nodes with eight free
 * ones, CPU beside GPUs) is spared the more the rarer it is. Prices are scaled so that all the room
 * there is costs as many milli as are free; urgent room costs more than that.
 * docs/placement-study.md says what this wins, and where not.
 */
#include "core/placement/placement_machine.h"

enum { LEAST_TURNOVER = 32, LEAST_IF_SHORT = 8 /* pods */ };

static size_t row_of(const struct placement *p, int model)
{
	return (size_t)model * placement_ask_row(&p->limits);
}

static placement_lanes priced(const float *price, const float *rooms, uint32_t a)
{
	return *(const placement_lanes *)(price + a) * *(const placement_lanes *)(rooms + a);
}

/* Σ price x room. The room for most asks is the same on two views that are compared: a sum of a few
 * of them is, too, and rounding takes from the others alone. */
static double total_price(const float *price, const float *rooms, uint32_t size)
{
	placement_sums sum = {0};
	uint32_t a = 0;

	for (; a + 3 * PLACEMENT_LANES < size; a += 4 * PLACEMENT_LANES)
		sum += __builtin_convertvector(
			(priced(price, rooms, a) + priced(price, rooms, a + PLACEMENT_LANES)) +
				(priced(price, rooms, a + 2 * PLACEMENT_LANES) +
				 priced(price, rooms, a + 3 * PLACEMENT_LANES)),
			placement_sums);
	for (; a < size; a += PLACEMENT_LANES)
		sum += __builtin_convertvector(priced(price, rooms, a), placement_sums);
	return sum[0] + sum[1] + sum[2] + sum[3];
}

double placement_worth(const struct placement *p, const struct placement_view *view)
{
	const double lost_weight = 5;
	const float *price = p->prices + row_of(p, view->model);

	if (view->devices == 0)
		return 0;
	placement_find_rooms(p, view, p->rooms_now);
	return total_price(price, p->rooms_now, p->asks.size) -
	       lost_weight * placement_lost(p, view);
}

/* ---- prices ---------------------------------------------------------------------------------- */

/* Adds the room of `times` nodes like this one. */
static double add_supply(struct placement *p, uint32_t node, uint32_t times)
{
	double *supply = p->supply + row_of(p, p->hosts[node].model);
	struct placement_view view;

	if (p->summed && p->briefs[node].known)
		placement_view_brief(p, node, &view);
	else
		placement_view_host(p, &p->hosts[node], &view);
	placement_find_rooms(p, &view, p->rooms_now);
	for (uint32_t a = 0; a < p->asks.size; a++)
		supply[a] += times * (double)p->rooms_now[a];
	return (double)view.total * times;
}

/* How much room there is for each ask on the nodes of each model; and how many milli are free.
 * Empty nodes of one make have the same. */
static double find_supply(struct placement *p)
{
	uint32_t alike[PLACEMENT_MAKES] = {0}, first[PLACEMENT_MAKES] = {0};
	double free_milli = 0;

	memset(p->supply, 0, row_of(p, PLACEMENT_MODELS) * sizeof(*p->supply));
	for (uint32_t n = 0; n < p->node_end; n++) {
		const struct placement_glance *glance = &p->glances[n];

		if (!glance->open || !glance->devices)
			continue;
		if (glance->empty && glance->make) {
			first[glance->make] = n;
			alike[glance->make]++;
			continue;
		}
		free_milli += add_supply(p, n, 1);
	}
	for (int i = 0; i < PLACEMENT_MAKES; i++)
		if (alike[i])
			free_milli += add_supply(p, first[i], alike[i]);
	return free_milli;
}

static bool accepts(uint64_t models, int model)
{
	return !models || (models >> model & 1);
}

static double at_most_one(double x)
{
	return x < 1 ? x : 1;
}

/* Pods that want several GPUs starve once room for them is short: pods with single GPUs take a part
 * of it whenever one becomes free. So their price rises steeply with their GPUs once less room is
 * left than their number varies by (a multiple of the root of how many there are). If next to
 * nothing is left they cannot be helped, and no other pod is to suffer for them. */
static double urgency(const struct placement *p, const struct placement_learned *it, double room)
{
	double there = (double)it->kin / p->usual_count * p->totals.pods;
	double devices = p->usuals[it->usual].devices, cube = devices * devices * devices;
	double shortage = at_most_one(6 * there / ((1 + room) * (1 + room)));
	double hope = there > 0 ? at_most_one(room * room / there) : 0;
	double urgent = cube * shortage * shortage * hope;

	return urgent > 1 ? urgent * urgent : 1;
}

/* The cost of all the room that there is, if nothing is urgent. */
static double find_prices(struct placement *p)
{
	double sum = 0;

	memset(p->prices, 0, row_of(p, PLACEMENT_MODELS) * sizeof(*p->prices));
	for (uint32_t i = 0; i < p->learned_size; i++) {
		const struct placement_learned *it = &p->learned[i];
		double milli = (double)placement_usual_milli(p, &p->usuals[it->usual]);
		double room = 0, price;

		for (int m = 0; m < PLACEMENT_MODELS; m++)
			if (accepts(it->models, m))
				room += p->supply[row_of(p, m) + it->ask];
		price = it->count * milli / ((1 + room) * (1 + room));
		sum += price * room;
		price *= urgency(p, it, room);
		for (int m = 0; m < PLACEMENT_MODELS; m++)
			if (accepts(it->models, m))
				p->prices[row_of(p, m) + it->ask] += (float)price;
	}
	return sum;
}

static void scale_prices(struct placement *p, double by)
{
	const size_t all = row_of(p, PLACEMENT_MODELS);

	for (size_t i = 0; i < all; i++)
		p->prices[i] *= (float)by;
}

/* Pods that may run anywhere go to the model with the lowest price, so between two prices a model
 * can be used up that others insist on. No more of it is used at old prices than an eighth of what
 * was left, or of a large one that is nearly full, so little that prices are not found all the
 * time. */
static void find_model_most(struct placement *p)
{
	p->models_short = 0;
	for (int m = 0; m < PLACEMENT_MODELS; m++) {
		uint64_t all = p->model_milli[m], used = p->model_used[m];
		uint64_t part = (all - used) / 8, least = all / 256;

		p->model_most[m] = UINT64_MAX;
		if (p->pinned >> m & 1)
			p->model_most[m] = used + (part > least ? part : least);
	}
}

/* So many pods have come and gone that the prices may be others. */
bool placement_prices_due(const struct placement *p)
{
	uint32_t quarter = p->totals.pods / 4;
	uint32_t least = quarter > LEAST_TURNOVER ? quarter : LEAST_TURNOVER;

	return p->config.policy == PLACEMENT_FORESIGHT && !p->on_trial &&
	       p->turnover >= (p->models_short ? LEAST_IF_SHORT : least);
}

void placement_find_prices(struct placement *p)
{
	double free_milli, sum;

	p->turnover = 0;
	find_model_most(p);
	if (p->config.policy != PLACEMENT_FORESIGHT || !p->asks.size)
		return;
	free_milli = find_supply(p);
	sum = find_prices(p);
	if (sum > 0)
		scale_prices(p, free_milli / sum);
}
