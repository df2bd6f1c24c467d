/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "replay/departures.h"
#include "replay/draw.h"

struct departure {
	double at;
	uint64_t pod;
};

/* The state of a run. The departures are a binary heap; the next one is at its root. */
struct living {
	const struct replay_trace *trace;
	const struct departures_run *run;
	struct departures_outcome *outcome;
	struct placement *p;
	uint64_t random, capacity_milli;
	double now;
	double older;				  /* when grow_old() runs next */
	double arrivals_per_time, lifetime_scale; /* the scale is per recorded second */
	struct departure *heap;			  /* owned */
	size_t size, room;
	/* Sums of milli x time: since the warm-up, and of the current window. */
	double allocated, allocated_window;
	uint64_t asked_window, refused_window;
	uint32_t window;
};

const char *departures_size_name(int size)
{
	static const char *const names[DEPARTURES_SIZES] = {"cpu", "part", "1", "2", "4", "8"};

	return names[size];
}

static int size_of(const struct replay_pod *pod)
{
	if (pod->gpus == 0)
		return 0;
	if (pod->gpus == 1)
		return pod->gpu_milli < PLACEMENT_WHOLE ? 1 : 2;
	return pod->gpus == 2 ? 3 : pod->gpus <= 4 ? 4 : 5;
}

/* ---- departures ------------------------------------------------------------------------------ */

static void swap(struct departure *a, struct departure *b)
{
	struct departure was = *a;

	*a = *b;
	*b = was;
}

static int push(struct living *it, double at, uint64_t pod)
{
	size_t i = it->size;

	if (it->size == it->room)
		return -ENOSPC;
	it->heap[it->size++] = (struct departure){at, pod};
	for (; i > 0 && it->heap[(i - 1) / 2].at > at; i = (i - 1) / 2)
		swap(&it->heap[i], &it->heap[(i - 1) / 2]);
	return 0;
}

static struct departure pop(struct living *it)
{
	struct departure first = it->heap[0];
	size_t i = 0;

	it->heap[0] = it->heap[--it->size];
	for (;;) {
		size_t least = 2 * i + 1;

		if (least >= it->size)
			return first;
		if (least + 1 < it->size && it->heap[least + 1].at < it->heap[least].at)
			least++;
		if (it->heap[i].at <= it->heap[least].at)
			return first;
		swap(&it->heap[i], &it->heap[least]);
		i = least;
	}
}

/* ---- the clock ------------------------------------------------------------------------------- */

static uint64_t allocated_milli(const struct living *it)
{
	struct placement_totals totals;

	placement_totals(it->p, &totals);
	return totals.used_milli;
}

static void close_window(struct living *it)
{
	struct departures_window *w = &it->outcome->window[it->window++];
	double length = it->run->lifetimes / it->run->windows, all = (double)it->capacity_milli;

	w->allocated = 100 * it->allocated_window / length / all;
	w->stranded = 100 * placement_fragmentation(it->p) / all;
	w->refused =
		it->asked_window ? 100 * (double)it->refused_window / (double)it->asked_window : 0;
	it->allocated_window = 0;
	it->asked_window = it->refused_window = 0;
}

/* Advances the time to `to`; nothing changes until then. */
static void pass(struct living *it, double to)
{
	double milli = (double)allocated_milli(it);

	while (it->window < it->run->windows) {
		bool last = it->window + 1 == it->run->windows;
		double end = it->run->lifetimes;

		if (!last)
			end = end * (it->window + 1) / it->run->windows;

		if (end > to)
			break;
		it->allocated_window += milli * fmax(end - it->now, 0);
		it->allocated += milli * fmax(end - fmax(it->now, it->run->warm_up), 0);
		it->now = end;
		close_window(it);
	}
	it->allocated_window += milli * (to - it->now);
	it->allocated += milli * fmax(to - fmax(it->now, it->run->warm_up), 0);
	it->now = to;
}

/* ---- arrivals -------------------------------------------------------------------------------- */

static double exponential(struct living *it)
{
	return -log1p(-draw_part(&it->random));
}

static double lifetime(struct living *it, const struct replay_pod *pod)
{
	double drawn = exponential(it);

	return it->run->recorded && pod->lifetime_s > 0 ? pod->lifetime_s * it->lifetime_scale
							: drawn;
}

static void count(struct living *it, const struct replay_pod *pod, bool refused)
{
	struct departures_size *size = &it->outcome->size[size_of(pod)];
	uint64_t milli = cluster_asks(pod);

	it->asked_window += milli;
	it->refused_window += refused ? milli : 0;
	if (it->now < it->run->warm_up)
		return;
	size->pods++;
	size->refused += refused;
	size->milli += milli;
	size->refused_milli += refused ? milli : 0;
}

/* Converts a remaining time in mean lifetimes to eighths of one. */
static uint8_t eighths(double left)
{
	return placement_eighths((uint64_t)(left * 800), 800);
}

/* Runs eight times in a mean lifetime: pods with less time left than they had
 * stated state the new time. */
static int grow_old(struct living *it)
{
	int r = 0;

	for (size_t i = 0; i < it->size && r == 0; i++) {
		double left = it->heap[i].at - it->now;

		if (eighths(left) != eighths(left + 1.0 / PLACEMENT_STAYS))
			r = placement_stays(it->p, it->heap[i].pod, eighths(left));
	}
	it->older += 1.0 / PLACEMENT_STAYS;
	return r;
}

static int arrive(struct living *it, struct fault *why)
{
	const struct replay_pod *pod =
		&it->trace->pods[draw_below(&it->random, it->trace->pods_size)];
	double leaves = it->now + lifetime(it, pod);
	uint64_t name;
	uint8_t stays = it->run->stated ? eighths(leaves - it->now) : 0;
	int r = cluster_place(it->p, pod, &it->run->how, stays, &it->random, &name, why);

	if (r < 0)
		return r;
	count(it, pod, r == PLACEMENT_NOWHERE);
	if (r == PLACEMENT_NOWHERE)
		return 0;
	return push(it, leaves, name) < 0
		       ? fault_set(why, -ENOMEM, "more pods at a time than there is room for")
		       : 0;
}

static int live(struct living *it, struct fault *why)
{
	double next = exponential(it) / it->arrivals_per_time;
	int r = 0;

	while (r == 0) {
		bool leaves = it->size && it->heap[0].at <= next;
		double at = leaves ? it->heap[0].at : next;

		if (at >= it->run->lifetimes)
			break;
		pass(it, at);
		if (it->run->stated && at >= it->older)
			r = grow_old(it);
		if (r < 0)
			break;
		if (leaves) {
			r = placement_release(it->p, pop(it).pod);
			continue;
		}
		r = arrive(it, why);
		next = at + exponential(it) / it->arrivals_per_time;
	}
	if (r == 0)
		pass(it, it->run->lifetimes);
	return r;
}

/* Finds the arrival rate, per mean lifetime, at which the pods that are present ask for the
 * load. */
static int find_rate(struct living *it, struct fault *why)
{
	double n = (double)it->trace->pods_size, known = 0, time = 0, milli = 0;

	for (size_t i = 0; i < it->trace->pods_size && it->run->recorded; i++) {
		known += it->trace->pods[i].lifetime_s > 0;
		time += it->trace->pods[i].lifetime_s;
	}
	if (it->run->recorded && time <= 0)
		return fault_set(why, -EINVAL,
				 "the list has no lifetimes: columns creation_time and "
				 "deletion_time are needed");
	/* A pod with an unknown lifetime stays for the mean of the known ones. */
	it->lifetime_scale = time > 0 ? known / time : 0;
	for (size_t i = 0; i < it->trace->pods_size; i++) {
		const struct replay_pod *pod = &it->trace->pods[i];
		bool recorded = it->run->recorded && pod->lifetime_s > 0;
		double stays = recorded ? pod->lifetime_s * it->lifetime_scale : 1;

		milli += (double)cluster_asks(pod) * stays / n;
	}
	if (it->capacity_milli == 0)
		return fault_set(why, -EINVAL, "the nodes have no GPUs");
	if (milli <= 0)
		return fault_set(why, -EINVAL, "no arrivals: the pods ask for no GPU");
	it->arrivals_per_time = (double)it->capacity_milli * it->run->load_milli / 1000 / milli;
	return 0;
}

static void sum_up(struct living *it)
{
	uint64_t asked = 0, refused = 0;

	for (int i = 0; i < DEPARTURES_SIZES; i++) {
		asked += it->outcome->size[i].milli;
		refused += it->outcome->size[i].refused_milli;
	}
	it->outcome->refused = asked ? 100 * (double)refused / (double)asked : 0;
	it->outcome->allocated = 100 * it->allocated / (double)it->capacity_milli /
				 (it->run->lifetimes - it->run->warm_up);
}

int departures_replay(const struct replay_trace *trace, const struct departures_run *run,
		      struct departures_outcome *ret_outcome, struct fault *why)
{
	uint64_t random = run->how.seed * 0x2545f4914f6cdd1d + 1;
	owned(free) size_t *nodes = malloc(trace->nodes_size * sizeof(*nodes));
	owned(free) struct departures_outcome *outcome = calloc(1, sizeof(*outcome));
	owned(free) struct departure *heap = NULL;
	owned(free) struct placement *p = NULL;
	struct living it = {.trace = trace,
			    .run = run,
			    .outcome = outcome,
			    .capacity_milli = cluster_capacity(trace)};
	size_t bytes;
	int r;

	if (!nodes || !outcome)
		return fault_set(why, -ENOMEM, "out of memory");
	r = find_rate(&it, why);
	if (r < 0)
		return r;
	draw_shuffle(nodes, trace->nodes_size, &random);
	/* The mean number of pods present equals the arrivals in a mean lifetime; the room is for
	 * ten standard deviations more. */
	it.room = (size_t)(it.arrivals_per_time + 10 * sqrt(it.arrivals_per_time)) + 1000;
	if (it.room >= 1u << 24)
		return fault_set(why, -EINVAL, "%zu pods at a time: 16 million at most", it.room);
	it.heap = heap = malloc(it.room * sizeof(*heap));
	if (!heap)
		return fault_set(why, -ENOMEM, "out of memory");
	r = cluster_make(trace, &run->how, (uint32_t)trace->nodes_size, (uint32_t)it.room + 1,
			 run->how.trace_order ? NULL : nodes, &p, &bytes, why);
	it.p = p;
	it.random = random;
	if (r == 0)
		r = live(&it, why);
	if (r < 0)
		return r;
	sum_up(&it);
	*ret_outcome = *outcome;
	return 0;
}
