/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foresight: what a node is worth to the pods that usually come.
 *
 * The room of a node is counted in pods: for each usual pod (an *ask*) how many of it would fit, if
 * only such came. What is taken now counts as well, less for each pod that has to leave first: a
 * node with eight GPUs, of which one pod holds four, will soon take an 8-GPU pod again, and one
 * where four pods hold one each will not. The worth of a node is
 *
 *	Σ over the asks: price x room  -  5 x what nobody will use (core/placement_lost.c)
 *
 * in milli, and a pod goes where it takes least of it. The price of an ask is its part of the
 * demand divided by the square of the room for it in the whole cluster: what is plenty costs
 * nothing; what becomes rare (GPUs of a model that some pods insist on, nodes with eight free ones,
 * CPU beside GPUs) is spared the more the rarer it is. Prices are scaled so that all the room there
 * is costs as many milli as are free. docs/placement.md says what this wins, and where not.
 */
#include "core/placement_machine.h"

enum {
	HOLDER = 840, /* a pod, in parts that may hold a GPU each */
	FADE_STEP = HOLDER / 8,
	LEAST_TURNOVER = 32,
};

/* How much room counts that so many pods, in eighths of a pod, have to leave first: 0.3 for each.
 */
void placement_find_fades(struct placement *p)
{
	const float eighth = 0.86028F;

	p->fade[0] = 1;
	for (int i = 1; i < PLACEMENT_FADES; i++)
		p->fade[i] = p->fade[i - 1] * eighth;
}

static const float least_count = 0.005F; /* less room than this is none */

/* A view's GPUs as those see them that want whole ones: for d = 1 .. at a time, the best first. */
struct wholes {
	/* Σ over the first j sets of d GPUs of how much they count. */
	float sum[PLACEMENT_DEVICES + 1][PLACEMENT_DEVICES + 1];
	uint8_t sets[PLACEMENT_DEVICES + 1];
	float cpu, cpu_all; /* milli: left, and of the node */
	float per_milli;    /* pods that have to leave for a milli more */
};

static float fade_of(const struct placement *p, uint32_t holders)
{
	uint32_t i = (holders + FADE_STEP / 2) / FADE_STEP;

	return i < PLACEMENT_FADES ? p->fade[i] : 0;
}

uint32_t placement_holder(uint32_t devices)
{
	return HOLDER / (devices ? devices : 1);
}

/* The pods that hold a GPU. Many small ones count as one, or a little more the more they have: it
 * is they that are brought together, so that other GPUs become empty. */
static uint32_t holders_of(const struct placement_view *view, int gpu)
{
	int32_t taken = PLACEMENT_WHOLE - view->left[gpu];

	if (view->empty[gpu] || view->shut[gpu])
		return view->holders[gpu];
	return HOLDER + (taken > 0 ? (uint32_t)taken * HOLDER / PLACEMENT_WHOLE / 2 : 0);
}

static void find_wholes(const struct placement *p, const struct placement_view *view,
			struct wholes *ret)
{
	float wait[PLACEMENT_DEVICES], held = 0;
	int n = 0;

	for (int k = 0; k < view->devices; k++) {
		uint32_t holders = holders_of(view, k);
		float fade = view->open[k] ? fade_of(p, holders) : 0;
		int at = n;

		held += (float)holders / HOLDER;
		if (fade <= 0)
			continue;
		for (n++; at > 0 && wait[at - 1] < fade; at--)
			wait[at] = wait[at - 1];
		wait[at] = fade;
	}
	for (int d = 1; d <= PLACEMENT_DEVICES; d++) {
		if (!(p->whole_sizes >> d & 1))
			continue;
		ret->sets[d] = (uint8_t)(n / d);
		ret->sum[d][0] = 0;
		for (int j = 0; j < ret->sets[d]; j++) {
			float counts = 1;

			for (int i = j * d; i < (j + 1) * d; i++)
				counts *= wait[i];
			ret->sum[d][j + 1] = ret->sum[d][j] + counts;
		}
	}
	ret->cpu = (float)view->cpu;
	ret->cpu_all = (float)view->cpu_all;
	ret->per_milli =
		(held > 1 ? held : 1) / (ret->cpu_all - ret->cpu > 1 ? ret->cpu_all - ret->cpu : 1);
}

static int at_most(float sets, int most)
{
	return sets < (float)most ? (int)sets : most;
}

/* Room for sets of whole GPUs: while the CPU lasts as much as the GPUs count, then less. */
static float room_whole(const struct placement *p, const struct wholes *w, int devices,
			const struct placement_ask *ask)
{
	const float *sum = w->sum[devices];
	int sets = w->sets[devices], now;
	float room;

	if (ask->cpu <= 0)
		return sum[sets];
	sets = at_most(w->cpu_all / ask->cpu, sets);
	now = w->cpu > 0 ? at_most(w->cpu / ask->cpu, sets) : 0;
	room = sum[now];
	for (int j = now + 1; j <= sets; j++) {
		float counts = sum[j] - sum[j - 1], least = 0;
		float pods = ((float)j * ask->cpu - w->cpu) * w->per_milli;

		if (pods >= 0 && pods < 8)
			least = fade_of(p, (uint32_t)(pods * HOLDER));
		if (least < least_count || counts < least_count)
			break;
		room += least < counts ? least : counts;
	}
	return room;
}

static int fit(int32_t room, uint32_t need)
{
	return room < (int32_t)need ? 0 : room / (int32_t)need;
}

/* What is left of each GPU in steps, where all are whole steps and all classes have the same: else
 * `odd`. */
struct steps {
	uint8_t at[PLACEMENT_DEVICES];
	bool odd;
};

static void find_steps(const struct placement *p, const struct placement_view *view,
		       struct steps *ret)
{
	ret->odd = !p->plain;
	for (int k = 0; k < view->devices; k++) {
		int32_t room = view->compute[0][k] > 0 ? view->compute[0][k] : 0;

		ret->odd |= room > PLACEMENT_WHOLE || room % PLACEMENT_STEP != 0;
		ret->at[k] = ret->odd ? 0 : (uint8_t)(room / PLACEMENT_STEP);
	}
}

/* How many pods with a part of a GPU would fit, as far as the GPUs go. */
static int parts(const struct placement *p, const struct placement_view *view,
		 const struct steps *steps, uint32_t u)
{
	const struct placement_usual *usual = &p->usuals[u];
	const uint8_t *row = p->fits + (size_t)u * PLACEMENT_LOW_STEPS;
	int n = 0;

	if (!steps->odd && usual->compute && !usual->memory_mib && usual->devices == 1) {
		for (int k = 0; k < view->devices; k++)
			n += row[steps->at[k]];
		return n;
	}

	for (int k = 0; k < view->devices; k++) {
		int32_t compute = view->compute[p->level[usual->class]][k];
		int32_t memory = view->memory[p->level[usual->class]][k];
		int here = PLACEMENT_WHOLE;

		if (compute < 0 || memory < 0)
			continue;
		if (usual->compute)
			here = fit(compute, usual->compute);
		if (usual->memory_mib && here > 0) {
			int by_memory = fit(memory, usual->memory_mib);

			here = by_memory < here ? by_memory : here;
		}
		here = here < UINT8_MAX ? here : UINT8_MAX;
		n += usual->devices > 1 ? here > 0 : here;
	}
	return n / usual->devices;
}

static int instances(const struct placement *p, const struct placement_view *view,
		     const struct placement_usual *usual)
{
	int n = 0;

	for (int k = 0; k < view->devices; k++)
		if (view->geometry[k])
			n += placement_instances(p, view->geometry[k], view->mig_taken[k],
						 usual->profile);
	return n / usual->devices;
}

/* Of parts of a GPU without memory the division is done once for each amount that is left. */
static void find_fits(struct placement *p)
{
	p->whole_sizes = 0;
	for (uint32_t u = 0; u < p->usuals_size; u++)
		if (p->usuals[u].exclusive)
			p->whole_sizes |= 1u << p->usuals[u].devices;
	for (uint32_t u = 0; u < p->usuals_size; u++)
		for (int step = 0; step < PLACEMENT_LOW_STEPS && p->usuals[u].compute; step++) {
			int n = fit(step * PLACEMENT_STEP, p->usuals[u].compute);

			p->fits[(size_t)u * PLACEMENT_LOW_STEPS + (size_t)step] =
				(uint8_t)(n < UINT8_MAX ? n : UINT8_MAX);
		}
}

static float room_part(const struct placement_view *view, float n, const struct placement_ask *ask)
{
	float by_cpu;

	if (ask->cpu <= 0 || n <= 0)
		return n;
	by_cpu = view->cpu > 0 ? (float)view->cpu * ask->per_cpu : 0;
	return by_cpu < n ? by_cpu : n;
}

/* How much room the node has for each ask. */
static void find_rooms(const struct placement *p, const struct placement_view *view, float *ret)
{
	struct wholes wholes;
	struct steps steps;
	uint32_t a = 0;

	find_wholes(p, view, &wholes);
	find_steps(p, view, &steps);
	for (uint32_t u = 0; u < p->usuals_size; u++) {
		const struct placement_usual *usual = &p->usuals[u];
		bool enough = usual->devices <= view->devices;
		float n = 0;

		if (usual->exclusive)
			enough &= usual->memory_mib <= view->gpu_mib;
		else if (enough)
			n = (float)(usual->profile ? instances(p, view, usual)
						   : parts(p, view, &steps, u));
		for (; a < p->asks_size && p->asks[a].usual == u; a++) {
			if (usual->exclusive && enough)
				ret[a] = room_whole(p, &wholes, usual->devices, &p->asks[a]);
			else
				ret[a] = room_part(view, n, &p->asks[a]);
		}
	}
}

double placement_worth(const struct placement *p, const struct placement_view *view)
{
	const double lost_weight = 5;
	const double *price = p->prices + (size_t)view->model * p->limits.typicals;
	float *rooms = p->rooms_now;
	double worth = 0;

	if (view->devices == 0)
		return 0;
	find_rooms(p, view, rooms);
	for (uint32_t a = 0; a < p->asks_size; a++)
		worth += price[a] * (double)rooms[a];
	return worth - lost_weight * placement_lost(p, view);
}

/* ---- prices ---------------------------------------------------------------------------------- */

/* How much room there is for each ask on the nodes of each model. */
static void find_supply(struct placement *p)
{
	memset(p->supply, 0, (size_t)PLACEMENT_MODELS * p->limits.typicals * sizeof(*p->supply));
	for (uint32_t n = 0; n < p->node_end; n++) {
		const struct placement_host *host = &p->hosts[n];
		double *supply = p->supply + (size_t)host->model * p->limits.typicals;
		struct placement_view view;

		if (!host->present || host->cordoned || !host->devices)
			continue;
		placement_look(p, host, &view);
		find_rooms(p, &view, p->rooms_now);
		for (uint32_t a = 0; a < p->asks_size; a++)
			supply[a] += (double)p->rooms_now[a];
	}
}

static bool accepts(uint64_t models, int model)
{
	return !models || (models >> model & 1);
}

static void find_prices(struct placement *p)
{
	const size_t row = p->limits.typicals;

	memset(p->prices, 0, PLACEMENT_MODELS * row * sizeof(*p->prices));
	for (uint32_t i = 0; i < p->learned_size; i++) {
		const struct placement_learned *it = &p->learned[i];
		double milli = (double)placement_usual_milli(p, &p->usuals[it->usual]);
		double room = 1, price;

		for (int m = 0; m < PLACEMENT_MODELS; m++)
			if (accepts(it->models, m))
				room += p->supply[(size_t)m * row + it->ask];
		price = it->count * milli / (room * room);
		for (int m = 0; m < PLACEMENT_MODELS; m++)
			if (accepts(it->models, m))
				p->prices[(size_t)m * row + it->ask] += price;
	}
}

/* All the room there is costs as many milli as are free. */
static void scale_prices(struct placement *p)
{
	const size_t all = (size_t)PLACEMENT_MODELS * p->limits.typicals;
	double free_milli = (double)(p->totals.compute_milli - p->totals.used_milli), sum = 0;

	for (size_t i = 0; i < all; i++)
		sum += p->prices[i] * p->supply[i];
	for (size_t i = 0; i < all && sum > 0; i++)
		p->prices[i] *= free_milli / sum;
}

/* So much has come and gone that the prices may be others. */
bool placement_prices_due(const struct placement *p)
{
	uint32_t quarter = p->totals.pods / 4;

	return p->config.policy == PLACEMENT_FORESIGHT &&
	       p->turnover >= (quarter > LEAST_TURNOVER ? quarter : LEAST_TURNOVER);
}

void placement_find_prices(struct placement *p)
{
	p->turnover = 0;
	if (p->config.policy != PLACEMENT_FORESIGHT || !p->asks_size)
		return;
	find_fits(p);
	find_supply(p);
	find_prices(p);
	scale_prices(p);
}
