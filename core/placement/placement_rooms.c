/* SPDX-License-Identifier: Apache-2.0 */
/*
 * foresight, the room of a node: how many of each usual pod (an *ask*) would fit, if only such
 * came. Room that is taken now counts as well, less for each pod that has to leave first.
 *
 * Scoring a node is mostly this, so asks are worked out PLACEMENT_LANES at a time, and figures that
 * depend on a GPU's room alone are looked up by its step.
 */
#include "core/placement/placement_machine.h"

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

enum {
	LANES = PLACEMENT_LANES,
	HOLDER = 840, /* a pod, in parts that may hold a GPU each */
	FADE_STEP = HOLDER / 8,
};

typedef placement_lanes lanes;
typedef int32_t lane_bits __attribute__((vector_size(4 * PLACEMENT_LANES), aligned(4), may_alias));

/* Room for which so many pods must leave first is none. */
static const float most_pods = 4.5F;

static lanes load(const float *from)
{
	return *(const lanes *)from;
}

static lanes only(lane_bits mask, lanes values)
{
	return (lanes)(mask & (lane_bits)values);
}

static lanes lesser(lanes a, lanes b)
{
#ifdef __SSE2__
	return _mm_min_ps(a, b);
#else
	lane_bits first = a < b;

	return (lanes)((first & (lane_bits)a) | (~first & (lane_bits)b));
#endif
}

static lanes all(float value)
{
	return value - (lanes){0};
}

/* ---- fading ---------------------------------------------------------------------------------- */

/* How much room counts that so many pods, in eighths of a pod, have to leave first: 0.3 for each.
 */
void placement_find_fades(struct placement *p)
{
	const float eighth = 0.86028F;

	p->fade[0] = 1;
	for (int i = 1; i < PLACEMENT_FADES; i++)
		p->fade[i] = p->fade[i - 1] * eighth;
}

static float fade_of(const struct placement *p, uint32_t holders)
{
	uint32_t i = (holders + FADE_STEP / 2) / FADE_STEP;

	return i < PLACEMENT_FADES ? p->fade[i] : 0;
}

/* Of pods and any part of a pod: 0.3^pods = 2^(-pods * log2 10/3). The bits of a float count its
 * exponent, and between two of them they are as good as linear. `exponent`: that of 2, in such
 * bits, 0 .. 16 of a whole one. */
static const float whole_exponent = 1 << 23, exponent_per_pod = 1.7369656F * (1 << 23);

static lanes fades(lanes exponent)
{
	return (lanes) __builtin_convertvector(127 * whole_exponent - exponent, lane_bits);
}

uint32_t placement_holder(uint32_t devices)
{
	return HOLDER / (devices ? devices : 1);
}

uint32_t placement_leaving(uint32_t holder, uint8_t stays)
{
	return stays ? holder - holder * stays / PLACEMENT_STAYS : 0;
}

/* ---- the asks -------------------------------------------------------------------------------- */

uint32_t placement_ask_row(const struct placement_limits *limits)
{
	return (limits->typicals + PLACEMENT_PADDING + LANES - 1) / LANES * LANES;
}

/* Adds what was learned to the asks: to an equal one from `first` on, or as a new one. */
static void add_ask(struct placement *p, uint32_t first, struct placement_learned *it)
{
	struct placement_asks *asks = &p->asks;
	float cpu = (float)it->cpu;
	uint32_t a = first;

	while (a < asks->size &&
	       (asks->usual[a] != it->usual || asks->cpu[a] < cpu || asks->cpu[a] > cpu))
		a++;
	if (a == asks->size) {
		asks->cpu[a] = cpu;
		asks->per_cpu[a] = cpu > 0 ? 1 / cpu : 0;
		asks->free_cpu[a] = cpu > 0 ? 0 : 1e6F;
		asks->usual[a] = it->usual;
		asks->size++;
	}
	it->ask = (uint16_t)a;
}

/* The usual pod that asks so; NULL: none does. */
static const struct placement_usual *usual_of(const struct placement *p, uint32_t a)
{
	return p->asks.usual[a] == UINT16_MAX ? NULL : &p->usuals[p->asks.usual[a]];
}

/* Fills up the last vector: asks that are no usual pod's are copies of the one before. */
static void pad(struct placement_asks *asks)
{
	for (; asks->size % LANES; asks->size++) {
		asks->cpu[asks->size] = asks->cpu[asks->size - 1];
		asks->per_cpu[asks->size] = asks->free_cpu[asks->size] = 0;
		asks->usual[asks->size] = UINT16_MAX;
	}
}

static int fit(int32_t room, uint32_t need)
{
	return need == 0 || room < (int32_t)need ? 0 : room / (int32_t)need;
}

/* The division is done once for each amount that may be left. */
static void find_fits(struct placement *p)
{
	struct placement_asks *asks = &p->asks;

	for (int step = 0; step < PLACEMENT_LOW_STEPS; step++) {
		for (uint32_t a = 0; a < asks->parts; a++) {
			const struct placement_usual *usual = usual_of(p, a);
			int n = usual && usual->in_steps
					? fit(step * PLACEMENT_STEP, usual->compute)
					: 0;

			asks->fits[(size_t)step * asks->parts + a] =
				(float)(n < UINT8_MAX ? n : UINT8_MAX);
		}
	}
}

void placement_find_asks(struct placement *p)
{
	struct placement_asks *asks = &p->asks;

	asks->size = 0;
	asks->in_steps = true;
	asks->whole_memory = false;
	for (uint32_t u = 0; u < p->usuals_size; u++) {
		uint32_t first = asks->size;

		asks->in_steps &= p->usuals[u].exclusive || p->usuals[u].in_steps;
		asks->whole_memory |= p->usuals[u].exclusive && p->usuals[u].memory_mib;
		for (uint32_t i = 0; i < p->learned_size && !p->usuals[u].exclusive; i++)
			if (p->learned[i].usual == u)
				add_ask(p, first, &p->learned[i]);
	}
	pad(asks);
	asks->parts = asks->wholes[0] = asks->wholes[1] = asks->size;
	for (int devices = 1; devices <= PLACEMENT_DEVICES; devices++) {
		for (uint32_t i = 0; i < p->learned_size; i++) {
			const struct placement_usual *usual = &p->usuals[p->learned[i].usual];

			if (usual->exclusive && usual->devices == devices)
				add_ask(p, asks->wholes[devices], &p->learned[i]);
		}
		pad(asks);
		asks->wholes[devices + 1] = asks->size;
	}
	find_fits(p);
}

/* ---- parts of GPUs --------------------------------------------------------------------------- */

/* How many pods with a part of a GPU would fit, as far as the GPUs go. */
static int parts(const struct placement *p, const struct placement_view *view,
		 const struct placement_usual *usual)
{
	int n = 0;

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
						 view->mig_instances[k], usual->profile);
	return n / usual->devices;
}

/* Counts one ask after the other: those whose number does not follow from the GPUs' steps, or all.
 */
static void count_each(const struct placement *p, const struct placement_view *view, bool each,
		       float *ret_rooms)
{
	uint16_t last = UINT16_MAX;
	float n = 0;

	for (uint32_t a = 0; a < p->asks.parts; a++) {
		const struct placement_usual *usual = usual_of(p, a);

		if (!usual)
			ret_rooms[a] = 0;
		if (!usual || (usual->in_steps && !each))
			continue;
		if (p->asks.usual[a] != last) {
			n = 0;
			if (usual->devices <= view->devices)
				n = (float)(usual->profile ? instances(p, view, usual)
							   : parts(p, view, usual));
		}
		last = p->asks.usual[a];
		ret_rooms[a] = n;
	}
}

/* The rows of `fits` that add up to what fits on all GPUs, and how often each counts. */
struct rows {
	const float *row[PLACEMENT_DEVICES];
	float times[PLACEMENT_DEVICES];
	int size;
};

static bool find_rows(const struct placement *p, const struct placement_view *view,
		      struct rows *ret)
{
	ret->size = 0;
	for (int k = 0; k < view->devices; k++) {
		const float *row = p->asks.fits + (size_t)view->step[k] * p->asks.parts;
		int i = 0;

		if (view->step[k] == PLACEMENT_ODD_STEP)
			return false;
		if (view->step[k] == 0)
			continue;
		while (i < ret->size && ret->row[i] != row)
			i++;
		if (i == ret->size) {
			ret->row[ret->size] = row;
			ret->times[ret->size++] = 0;
		}
		ret->times[i]++;
	}
	return true;
}

static lanes by_cpu(const struct placement_asks *asks, uint32_t a, float cpu)
{
	return load(asks->per_cpu + a) * cpu + load(asks->free_cpu + a);
}

static void rooms_of_parts(const struct placement *p, const struct placement_view *view,
			   float *ret_rooms)
{
	const struct placement_asks *asks = &p->asks;
	float cpu = view->cpu > 0 ? (float)view->cpu : 0;
	struct rows rows;
	bool known = find_rows(p, view, &rows);

	for (uint32_t a = 0; a < asks->parts && known; a += LANES) {
		lanes n = {0};

		for (int i = 0; i < rows.size; i++)
			n += load(rows.row[i] + a) * rows.times[i];
		*(lanes *)(ret_rooms + a) = lesser(by_cpu(asks, a, cpu), n);
	}
	if (known && asks->in_steps)
		return;
	count_each(p, view, !known, ret_rooms);
	for (uint32_t a = 0; a < asks->parts; a += LANES)
		*(lanes *)(ret_rooms + a) = lesser(by_cpu(asks, a, cpu), load(ret_rooms + a));
}

/* ---- whole GPUs ------------------------------------------------------------------------------ */

/* A view's GPUs for asks that want whole ones. */
struct wholes {
	float counts[PLACEMENT_DEVICES]; /* how much each counts, the best first */
	int size;
	float cpu, cpu_all;	  /* milli: left, and of the node */
	float exponent_per_milli; /* of the pods that have to leave for a milli more */
};

/* The pods that hold a GPU. Many small ones count as one, or a little more the more they have: it
 * is they that are brought together, so that other GPUs become empty. */
static uint32_t holders_of(const struct placement_view *view, int gpu)
{
	int32_t taken = PLACEMENT_WHOLE - view->left[gpu];
	uint64_t held, all = (uint64_t)view->holders[gpu] + view->leaving[gpu];

	if (view->empty[gpu] || view->shut[gpu])
		return view->holders[gpu];
	held = HOLDER + (taken > 0 ? (uint32_t)taken * HOLDER / PLACEMENT_WHOLE / 2 : 0);
	/* They leave as early as they do in the mean. */
	return (uint32_t)(view->leaving[gpu] ? held * view->holders[gpu] / all : held);
}

static void find_wholes(const struct placement *p, const struct placement_view *view,
			struct wholes *ret)
{
	uint32_t held = 0;
	float pods, used;

	ret->size = 0;
	for (int k = 0; k < view->devices; k++) {
		uint32_t holders = holders_of(view, k);
		float fade = view->open[k] ? fade_of(p, holders) : 0;
		int at = ret->size;

		held += holders;
		if (fade <= 0)
			continue;
		for (ret->size++; at > 0 && ret->counts[at - 1] < fade; at--)
			ret->counts[at] = ret->counts[at - 1];
		ret->counts[at] = fade;
	}
	pods = (float)held / HOLDER;
	ret->cpu = (float)view->cpu;
	ret->cpu_all = (float)view->cpu_all;
	used = ret->cpu_all - ret->cpu;
	ret->exponent_per_milli = (pods > 1 ? pods : 1) / (used > 1 ? used : 1) * exponent_per_pod;
}

/* Asks that want so much CPU for each set, in ascending order. */
static lanes room_of_sets(const struct wholes *w, const float *counts, int sets, lanes each)
{
	const lanes most = all(16 * whole_exponent);
	lanes cpu = {0}, room = {0};

	for (int j = 0; j < sets; j++) {
		lanes late, count = all(counts[j]);

		cpu += each;
		if (cpu[LANES - 1] <= w->cpu) {
			room += count;
			continue;
		}
		late = (cpu - w->cpu) * w->exponent_per_milli;
		if (cpu[0] > w->cpu_all || late[0] > most_pods * exponent_per_pod)
			break;
		late = only(late > 0, lesser(late, most));
		room += only(cpu <= w->cpu_all, lesser(fades(late), count));
	}
	return room;
}

/* Room for sets of so many whole GPUs: while the CPU lasts as much as the GPUs count, then less. */
static void rooms_of_wholes(const struct placement *p, const struct wholes *w, int devices,
			    float *ret_rooms)
{
	float counts[PLACEMENT_DEVICES];
	int sets = 0;

	for (; (sets + 1) * devices <= w->size; sets++) {
		counts[sets] = 1;
		for (int i = sets * devices; i < (sets + 1) * devices; i++)
			counts[sets] *= w->counts[i];
	}
	for (uint32_t a = p->asks.wholes[devices]; a < p->asks.wholes[devices + 1]; a += LANES)
		*(lanes *)(ret_rooms + a) = room_of_sets(w, counts, sets, load(p->asks.cpu + a));
}

/* GPUs that are too small. */
static void rule_out(const struct placement *p, const struct placement_view *view, float *ret_rooms)
{
	for (uint32_t a = p->asks.parts; a < p->asks.size; a++)
		if (usual_of(p, a) && usual_of(p, a)->memory_mib > view->gpu_mib)
			ret_rooms[a] = 0;
}

void placement_find_rooms(const struct placement *p, const struct placement_view *view,
			  float *ret_rooms)
{
	struct wholes wholes;

	rooms_of_parts(p, view, ret_rooms);
	find_wholes(p, view, &wholes);
	for (int devices = 1; devices <= PLACEMENT_DEVICES; devices++)
		if (p->asks.wholes[devices] < p->asks.wholes[devices + 1])
			rooms_of_wholes(p, &wholes, devices, ret_rooms);
	if (p->asks.whole_memory)
		rule_out(p, view, ret_rooms);
}
