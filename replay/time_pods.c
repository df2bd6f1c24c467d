/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/time_pods.h"

#include <stdlib.h>
#include <string.h>

#include "replay/draw.h"
#include "replay/pod_samples.h"

enum { PODS_MOST = 64 };

struct record {
	struct pod_samples samples;
	size_t *first; /* of each pod; first[pods]: the end */
	uint32_t pods;
	uint64_t *memory; /* the most that each pod held */
};

void time_pods_init(struct time_pods_job *job)
{
	*job = (struct time_pods_job){
		.memory_bytes = 141ull << 30,
		.request_ns = 20000000,
		.kernel_ns = 1000000,
		.gpus = 200,
		.most = 16,
		.length_ns = 60000000000,
		.seed = 1,
	};
}

/* ---- the record ------------------------------------------------------------------------------ */

static int index_pods(struct record *r)
{
	const struct pod_sample *row = r->samples.row;
	size_t size = r->samples.size;

	for (size_t i = 0; i < size; i++)
		r->pods += i == 0 || row[i].pod != row[i - 1].pod;
	r->first = calloc(r->pods + 1, sizeof(*r->first));
	r->memory = calloc(r->pods, sizeof(*r->memory));
	if (!r->first || !r->memory)
		return -ENOMEM;
	for (size_t i = 0, pod = 0; i < size; i++) {
		if (i && row[i].pod != row[i - 1].pod)
			r->first[++pod] = i;
		if (row[i].memory > r->memory[pod])
			r->memory[pod] = row[i].memory;
	}
	r->first[r->pods] = size;
	return 0;
}

static int load(const char *path, struct record *r, struct fault *why)
{
	int error = pod_samples_load(path, &r->samples, why);

	if (error < 0)
		return error;
	return index_pods(r) < 0 ? fault_set(why, -ENOMEM, "out of memory") : 0;
}

static void record_owned(struct record *r)
{
	pod_samples_done(&r->samples);
	free(r->first);
	free(r->memory);
}

/* ---- GPUs ------------------------------------------------------------------------------------ */

/* One of `size` numbers. Not draw_below(): the figures in bench/RESULTS.md were drawn so. */
static uint64_t one_of(uint64_t *random, uint64_t size)
{
	uint64_t number = draw(random);

	return size ? number % size : 0;
}

static int append(struct time_series *all, uint64_t value)
{
	if (all->size == all->room) {
		size_t room = all->room ? 2 * all->room : 256;
		uint64_t *values = realloc(all->values, room * sizeof(*values));

		if (!values)
			return -ENOMEM;
		all->values = values;
		all->room = room;
	}
	all->values[all->size++] = value;
	return 0;
}

struct sums {
	double asked, had, fits;
	struct time_series turns, plain, alone;
};

/* Runs one GPU, and appends each pod's 99th percentile to `waits`. */
static int run_one(const struct time_setup *setup, struct time_series *waits, double *ret_had,
		   struct fault *why)
{
	struct time_outcome out;
	int r = time_world_run(setup, &out, why);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < setup->tenants; i++) {
		if (out.waits[i].size && r == 0)
			r = append(waits, time_series_part(&out.waits[i], 990));
		*ret_had += (double)out.served[(out.samples - 1) * setup->tenants + i];
	}
	time_outcome_done(&out, setup->tenants);
	return r < 0 ? fault_set(why, r, "out of memory") : 0;
}

/* Draws the pods of a GPU. Returns how many of them use it: these have a load. */
static uint32_t draw_pods(const struct time_pods_job *job, const struct record *record,
			  uint32_t pods, uint64_t *random, struct sums *sums,
			  struct time_load loads[PODS_MOST])
{
	uint64_t memory = 0;
	uint32_t n = 0;

	for (uint32_t i = 0; i < pods; i++) {
		uint32_t pod = (uint32_t)one_of(random, record->pods);
		size_t size = record->first[pod + 1] - record->first[pod];
		uint32_t duty =
			record->samples.row[record->first[pod] + one_of(random, size)].duty_milli;
		struct time_load *load = &loads[n];

		memory += record->memory[pod];
		time_load_init(load);
		load->kind = TIME_POISSON;
		load->kernel_ns = job->kernel_ns;
		load->work_ns = job->request_ns;
		/* A guarantee makes the daemon take turns. Without it the device would be open
		 * among equals, which is the other column. */
		load->share.guarantee_milli = 10;
		sums->asked += duty / 1000.0;
		if (!duty)
			continue;
		load->pause_ns = job->request_ns * 1000 / duty;
		n++;
	}
	sums->fits += memory <= job->memory_bytes;
	return n;
}

/* Runs the same pods in turns, without turns, and the first of them alone. */
static int run_gpu(const struct time_pods_job *job, const struct record *record, uint32_t pods,
		   uint64_t *random, struct sums *sums, struct fault *why)
{
	struct time_load loads[PODS_MOST];
	struct time_setup setup;
	double unused_had = 0;
	uint32_t n;
	int r;

	if (!record->first || !record->memory)
		return fault_set(why, -EINVAL, "%s has no pods", job->path);
	n = draw_pods(job, record, pods, random, sums, loads);
	if (!n)
		return 0;
	time_setup_init(&setup);
	setup.length_ns = job->length_ns;
	setup.sample_ns = job->length_ns / 8;
	setup.loads = loads;
	setup.tenants = n;
	setup.seed = one_of(random, UINT64_MAX);
	r = run_one(&setup, &sums->turns, &sums->had, why);
	setup.plain = true;
	if (r == 0)
		r = run_one(&setup, &sums->plain, &unused_had, why);
	setup.tenants = 1;
	return r == 0 ? run_one(&setup, &sums->alone, &unused_had, why) : r;
}

static double part_ms(struct time_series *series, uint32_t milli)
{
	return (double)time_series_part(series, milli) / 1e6;
}

static int run_row(const struct time_pods_job *job, const struct record *record, uint32_t pods,
		   struct time_pods_row *row, struct fault *why)
{
	struct sums sums = {0};
	uint64_t random = job->seed * 1000 + pods;
	int r = 0;

	for (uint32_t i = 0; i < job->gpus && r == 0; i++)
		r = run_gpu(job, record, pods, &random, &sums, why);
	*row = (struct time_pods_row){
		.pods = pods,
		.demand = 100 * sums.asked / job->gpus,
		.fits = 100 * sums.fits / job->gpus,
		.had = sums.asked > 0 ? 100 * sums.had / (sums.asked * (double)job->length_ns)
				      : 100,
		.half_ms = part_ms(&sums.turns, 500),
		.nine_ms = part_ms(&sums.turns, 900),
		.plain_half_ms = part_ms(&sums.plain, 500),
		.plain_nine_ms = part_ms(&sums.plain, 900),
		.alone_nine_ms = part_ms(&sums.alone, 900),
	};
	free(sums.turns.values);
	free(sums.plain.values);
	free(sums.alone.values);
	return r;
}

int time_pods_run(const struct time_pods_job *job, struct time_pods_row **ret_rows,
		  size_t *ret_size, struct fault *why)
{
	static const uint32_t counts[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
	__attribute__((cleanup(record_owned))) struct record record = {0};
	owned(free) struct time_pods_row *rows = calloc(ARRAY_SIZE(counts), sizeof(*rows));
	size_t size = 0;
	int r;

	if (!rows)
		return fault_set(why, -ENOMEM, "out of memory");
	r = load(job->path, &record, why);
	for (; r == 0 && size < ARRAY_SIZE(counts) && counts[size] <= job->most; size++) {
		if (job->progress)
			fprintf(job->progress, "%u pods on each of %u GPUs\n", counts[size],
				job->gpus);
		r = run_row(job, &record, counts[size], &rows[size], why);
	}
	if (r < 0)
		return r;
	*ret_rows = take(rows);
	*ret_size = size;
	return 0;
}

/* ---- output ---------------------------------------------------------------------------------- */

void time_pods_print(FILE *out, const struct time_pods_job *job, const struct time_pods_row *rows,
		     size_t size)
{
	fprintf(out,
		"%u GPUs for each row, %.0f s each; requests of %.1f ms; memory of %.0f GiB\n"
		"the 99th percentile of a pod's requests, ms: half of the pods, nine in ten, are "
		"below\n"
		"%5s %8s %7s %7s | %9s %9s | %9s %9s | %9s\n",
		job->gpus, (double)job->length_ns / 1e9, (double)job->request_ns / 1e6,
		(double)job->memory_bytes / (double)(1ull << 30), "pods", "asked %", "had %",
		"fits %", "half", "nine", "slices", "slices", "alone");
	for (size_t i = 0; i < size; i++)
		fprintf(out, "%5u %8.1f %7.1f %7.1f | %9.2f %9.2f | %9.2f %9.2f | %9.2f\n",
			rows[i].pods, rows[i].demand, rows[i].had, rows[i].fits, rows[i].half_ms,
			rows[i].nine_ms, rows[i].plain_half_ms, rows[i].plain_nine_ms,
			rows[i].alone_nine_ms);
}

void time_pods_json(FILE *out, const struct time_pods_job *job, const struct time_pods_row *rows,
		    size_t size)
{
	fprintf(out, "{\"gpus\":%u,\"length_s\":%.3f,\"request_ms\":%.3f,\"rows\":[\n", job->gpus,
		(double)job->length_ns / 1e9, (double)job->request_ns / 1e6);
	for (size_t i = 0; i < size; i++)
		fprintf(out,
			"%s{\"pods\":%u,\"asked\":%.3f,\"had\":%.3f,\"fits\":%.3f,\"half_ms\":%.4f,"
			"\"nine_ms\":%.4f,\"slices_half_ms\":%.4f,\"slices_nine_ms\":%.4f,"
			"\"alone_nine_ms\":%.4f}",
			i ? ",\n" : "", rows[i].pods, rows[i].demand, rows[i].had, rows[i].fits,
			rows[i].half_ms, rows[i].nine_ms, rows[i].plain_half_ms,
			rows[i].plain_nine_ms, rows[i].alone_nine_ms);
	fputs("\n]}\n", out);
}

void time_pods_svg(FILE *out, const struct time_pods_row *rows, size_t size)
{
	double most_ms = 1, most_pods = size ? rows[size - 1].pods : 1;

	for (size_t i = 0; i < size; i++) {
		most_ms = rows[i].nine_ms > most_ms ? rows[i].nine_ms : most_ms;
		most_ms = rows[i].plain_nine_ms > most_ms ? rows[i].plain_nine_ms : most_ms;
	}
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"420\" "
		"font-family=\"sans-serif\" font-size=\"12\">\n"
		"<rect width=\"760\" height=\"420\" fill=\"white\"/>\n"
		"<text x=\"60\" y=\"28\" font-size=\"15\">A request's 99th percentile in ms, by "
		"pods "
		"on a GPU (0 to %.0f ms)</text>\n"
		"<text x=\"620\" y=\"60\" fill=\"#0072b2\">turns</text>\n"
		"<text x=\"620\" y=\"80\" fill=\"#d55e00\">hardware's slices</text>\n",
		most_ms);
	for (int plain = 0; plain < 2; plain++) {
		fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
			plain ? "#d55e00" : "#0072b2");
		for (size_t i = 0; i < size; i++)
			fprintf(out, "%.1f,%.1f ", 60 + 540 * rows[i].pods / most_pods,
				380 - 330 * (plain ? rows[i].plain_nine_ms : rows[i].nine_ms) /
						most_ms);
		fputs("\"/>\n", out);
	}
	for (size_t i = 0; i < size; i++)
		fprintf(out, "<text x=\"%.1f\" y=\"398\" text-anchor=\"middle\">%u</text>\n",
			60 + 540 * rows[i].pods / most_pods, rows[i].pods);
	fputs("</svg>\n", out);
}
