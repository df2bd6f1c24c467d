/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/memory_pods.h"

#include <stdlib.h>
#include <string.h>

#include "replay/pod_samples.h"

#define MS     1000000ull
#define SECOND 1000000000ull
#define GB     1000000000ull
#define MIB    (1024ull * 1024)

enum { EACH_MOST = 16 };

struct pod {
	struct memory_step *steps; /* owned */
	size_t size;
	double work_ns;
};

struct record {
	struct pod_samples samples;
	struct pod *pods; /* sorted by work, the busiest first; only those that are replayed */
	uint32_t pods_size;
};

void memory_pods_setup(struct memory_setup *setup)
{
	setup->device_bytes = 80 * GB;
	setup->store_bytes = 160 * GB;
	setup->alone_gbps = 26;
	setup->both_gbps = 18.6;
	setup->slice_ns = 20 * MS;
	/* Turns within a set do not matter here, but they would be half of all events. */
	setup->turns.turn_ns = 40 * MS;
}

void memory_pods_init(struct memory_pods_job *job)
{
	*job = (struct memory_pods_job){.each = 4, .request_ns = 500 * MS};
}

/* ---- the record ------------------------------------------------------------------------------ */

static int by_work(const void *a, const void *b)
{
	const struct pod *x = a, *y = b;

	return x->work_ns > y->work_ns ? -1 : x->work_ns < y->work_ns;
}

/* Turns samples [from, to) into steps. A pod that never ran, or never held memory, is skipped. */
static int make_pod(struct record *r, size_t from, size_t to)
{
	struct pod pod = {.steps = calloc(to - from, sizeof(*pod.steps))};
	uint64_t memory = 0;

	if (!pod.steps)
		return -ENOMEM;
	for (size_t i = from; i < to; i++) {
		const struct pod_sample *s = &r->samples.row[i];
		uint64_t until = i + 1 < to ? r->samples.row[i + 1].at_s : s->at_s;
		struct memory_step *step = &pod.steps[pod.size];

		if (pod.size && s->at_s * SECOND <= step[-1].at_ns)
			continue;
		*step = (struct memory_step){
			.at_ns = s->at_s * SECOND,
			.bytes = s->memory,
			.work_ns = (until - s->at_s) * SECOND / 1000 * s->duty_milli,
		};
		memory = s->memory > memory ? s->memory : memory;
		pod.work_ns += (double)step->work_ns;
		pod.size++;
	}
	if (pod.work_ns > 0 && memory > 1024 * MIB && pod.size > 1)
		r->pods[r->pods_size++] = pod;
	else
		free(pod.steps);
	return 0;
}

static int make_pods(struct record *r)
{
	size_t from = 0;
	int error = 0;

	r->pods = calloc(r->samples.size, sizeof(*r->pods));
	if (!r->pods)
		return -ENOMEM;
	for (size_t i = 1; i <= r->samples.size && error == 0; i++) {
		if (i < r->samples.size && r->samples.row[i].pod == r->samples.row[from].pod)
			continue;
		error = make_pod(r, from, i);
		from = i;
	}
	qsort(r->pods, r->pods_size, sizeof(*r->pods), by_work);
	return error;
}

static int load(const char *path, struct record *r, struct fault *why)
{
	int error = pod_samples_load(path, &r->samples, why);

	if (error < 0)
		return error;
	return make_pods(r) < 0 ? fault_set(why, -ENOMEM, "out of memory") : 0;
}

static void record_owned(struct record *r)
{
	for (uint32_t i = 0; i < r->pods_size; i++)
		free(r->pods[i].steps);
	free(r->pods);
	pod_samples_done(&r->samples);
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

/* Assigns the pods, the busiest first, each to the GPU with the least work among those that have a
 * free place. ret_gpu is indexed by pod. */
static int spread(const struct record *r, uint32_t gpus, uint32_t each, uint32_t *ret_gpu)
{
	owned(free) double *work = calloc(gpus, sizeof(*work));
	owned(free) uint32_t *pods = calloc(gpus, sizeof(*pods));

	if (!work || !pods)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->pods_size; i++) {
		uint32_t best = gpus;

		for (uint32_t g = 0; g < gpus; g++) {
			if (pods[g] < each && (best == gpus || work[g] < work[best]))
				best = g;
		}
		ret_gpu[i] = best;
		work[best] += r->pods[i].work_ns;
		pods[best]++;
	}
	return 0;
}

static const struct memory_step *step_at(const struct memory_load *load, uint64_t at_ns)
{
	size_t low = 0, high = load->steps_size;

	while (low + 1 < high) {
		size_t middle = (low + high) / 2;

		*(load->steps[middle].at_ns <= at_ns ? &low : &high) = middle;
	}
	return load->steps[low].at_ns <= at_ns ? &load->steps[low] : NULL;
}

/* Adds up, minute by minute, what is asked of the GPU beyond its time, and
 * finds the most that is held. */
static void measure_load(const struct memory_setup *s, uint64_t end_ns, double *ret_beyond,
			 struct memory_pods_sums *sums)
{
	const uint64_t minute = 60 * SECOND;

	for (uint64_t t = 0; t < end_ns; t += minute) {
		double asked = 0, held = 0;

		for (uint32_t i = 0; i < s->tenants; i++) {
			const struct memory_step *step = step_at(&s->loads[i], t);

			if (!step || step + 1 >= s->loads[i].steps + s->loads[i].steps_size)
				continue;
			held += (double)step->bytes;
			asked += (double)step->work_ns * (double)minute /
				 (double)(step[1].at_ns - step->at_ns);
		}
		if (asked > (double)minute)
			*ret_beyond += asked - (double)minute;
		held /= (double)s->device_bytes;
		sums->most_held = held > sums->most_held ? held : sums->most_held;
	}
}

struct totals {
	double asked, deferred, beyond, time;
};

static int run_gpu(struct memory_setup *s, struct totals *totals, struct memory_pods_sums *sums,
		   struct fault *why)
{
	struct memory_outcome out;
	uint64_t end = 0;
	int r;

	for (uint32_t i = 0; i < s->tenants; i++) {
		const struct memory_load *l = &s->loads[i];
		uint64_t last = l->steps[l->steps_size - 1].at_ns;

		end = last > end ? last : end;
	}
	measure_load(s, end, &totals->beyond, sums);
	totals->time += (double)end;
	r = memory_world_run(s, &out, why);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < s->tenants; i++) {
		const struct memory_tenant *t = &out.tenants[i];
		double waited = (double)t->longest_ns / 1e9;

		totals->asked += (double)t->asked_ns;
		totals->deferred += (double)t->deferred_ns;
		sums->refused += t->refused;
		sums->longest_wait_s =
			waited > sums->longest_wait_s ? waited : sums->longest_wait_s;
	}
	sums->handovers += out.sets;
	sums->moved_bytes += out.left_bytes + out.came_bytes;
	sums->events += (double)out.events;
	memory_outcome_done(&out, s->tenants);
	return 0;
}

static int run_all(const struct memory_pods_job *job, const struct record *r, const uint32_t *gpu,
		   struct memory_pods_sums *sums, struct fault *why)
{
	struct totals totals = {0};

	for (uint32_t g = 0; g < sums->gpus; g++) {
		struct memory_load loads[EACH_MOST];
		struct memory_setup setup = job->setup;
		int error;

		setup.loads = loads;
		setup.tenants = 0;
		for (uint32_t i = 0; i < r->pods_size; i++) {
			struct memory_load *l = &loads[setup.tenants];

			if (gpu[i] != g)
				continue;
			memory_load_init(l);
			l->steps = r->pods[i].steps;
			l->steps_size = r->pods[i].size;
			l->join_ns = r->pods[i].steps[0].at_ns;
			l->request_ns = job->request_ns;
			setup.tenants++;
		}
		if (job->progress)
			fprintf(job->progress, "GPU %u of %u\n", g + 1, sums->gpus);
		error = run_gpu(&setup, &totals, sums, why);
		if (error < 0)
			return error;
	}
	sums->asked_percent = 100 * totals.asked / totals.time;
	sums->deferred_percent = 100 * totals.deferred / totals.asked;
	sums->collides_percent = 100 * totals.beyond / totals.asked;
	return 0;
}

int memory_pods_run(const struct memory_pods_job *job, struct memory_pods_sums *ret_sums,
		    struct fault *why)
{
	__attribute__((cleanup(record_owned))) struct record record = {0};
	struct memory_pods_sums sums = {0};
	owned(free) uint32_t *gpu = NULL;
	int r = load(job->path, &record, why);

	if (r < 0)
		return r;
	if (!record.pods_size)
		return fault_set(why, -EINVAL, "%s has no pod that used a GPU and held memory",
				 job->path);
	sums.pods = record.pods_size;
	sums.gpus = (record.pods_size + job->each - 1) / job->each;
	gpu = calloc(record.pods_size, sizeof(*gpu));
	if (!gpu || spread(&record, sums.gpus, job->each, gpu) < 0)
		return fault_set(why, -ENOMEM, "out of memory");
	r = run_all(job, &record, gpu, &sums, why);
	if (r == 0)
		*ret_sums = sums;
	return r;
}

/* ---- output ---------------------------------------------------------------------------------- */

void memory_pods_print(FILE *out, const struct memory_pods_job *job,
		       const struct memory_pods_sums *s)
{
	fprintf(out,
		"%u pods on %u GPUs of %.0f GB, %u on each; together they held up to %.0f %% of a "
		"GPU's memory\n"
		"they asked for %.1f %% of the GPUs' time; %.2f %% of that came a sample later "
		"than alone (%.2f %% collides within a minute)\n"
		"the longest wait was %.2f s; memory was refused %llu times; %llu handovers moved "
		"%.0f GB\n",
		s->pods, s->gpus, (double)job->setup.device_bytes / 1e9, job->each,
		100 * s->most_held, s->asked_percent, s->deferred_percent, s->collides_percent,
		s->longest_wait_s, (unsigned long long)s->refused, (unsigned long long)s->handovers,
		(double)s->moved_bytes / 1e9);
}

void memory_pods_json(FILE *out, const struct memory_pods_job *job,
		      const struct memory_pods_sums *s)
{
	fprintf(out,
		"{\"pods\":%u,\"gpus\":%u,\"each\":%u,\"most_held\":%.4f,\"asked_percent\":%.4f,"
		"\"deferred_percent\":%.4f,\"collides_percent\":%.4f,\"longest_wait_s\":%.6f,"
		"\"refused\":%llu,\"handovers\":%llu,\"moved_bytes\":%llu,\"events\":%.0f}\n",
		s->pods, s->gpus, job->each, s->most_held, s->asked_percent, s->deferred_percent,
		s->collides_percent, s->longest_wait_s, (unsigned long long)s->refused,
		(unsigned long long)s->handovers, (unsigned long long)s->moved_bytes, s->events);
}
