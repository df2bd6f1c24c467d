/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "replay/job.h"
#include "replay/plot.h"

/* Returns how many percent of the GPU milli that pods of a size (-1: all pods) asked for was
 * refused, over all seeds. */
static double refused_of(const struct replay_results *results, size_t list, size_t policy, int size)
{
	double asked = 0, refused = 0;

	for (size_t seed = 0; seed < results->job->seeds; seed++) {
		const struct departures_outcome *it = replay_outcome(results, list, policy, seed);

		for (int i = 0; i < DEPARTURES_SIZES; i++) {
			if (size >= 0 && size != i)
				continue;
			asked += size == 0 ? (double)it->size[i].pods : (double)it->size[i].milli;
			refused += size == 0 ? (double)it->size[i].refused
					     : (double)it->size[i].refused_milli;
		}
	}
	return asked > 0 ? 100 * refused / asked : 0;
}

static double deviation_of(const struct replay_results *results, size_t list, size_t policy)
{
	struct replay_tally tally = {0};

	for (size_t i = 0; i < results->job->seeds; i++)
		replay_tally_add(&tally, replay_outcome(results, list, policy, i)->refused);
	return replay_tally_mean(&tally).deviation;
}

static double allocated_of(const struct replay_results *results, size_t list, size_t policy)
{
	double sum = 0;

	for (size_t i = 0; i < results->job->seeds; i++)
		sum += replay_outcome(results, list, policy, i)->allocated;
	return sum / (double)results->job->seeds;
}

void departures_print_tables(FILE *out, const struct replay_results *results)
{
	const struct replay_job *job = results->job;

	for (size_t list = 0; list < job->lists_size; list++) {
		fprintf(out,
			"%s%s, load %g, %g lifetimes after %g of warm-up, %zu seeds: refused, "
			"percent of what was asked for (deviation); of pods by their GPUs; "
			"allocated, percent of all GPUs\n",
			list ? "\n" : "", job->lists[list], job->living.load_milli / 1000.0,
			job->living.lifetimes - job->living.warm_up, job->living.warm_up,
			job->seeds);
		fprintf(out, "%-13s %15s", "", "refused");
		for (int i = 0; i < DEPARTURES_SIZES; i++)
			fprintf(out, " %7s", departures_size_name(i));
		fprintf(out, "  allocated\n");
		for (size_t policy = 0; policy < job->policies_size; policy++) {
			fprintf(out, "%-13s %7.3f (%5.3f)",
				cluster_policy_name(job->policies[policy]),
				refused_of(results, list, policy, -1),
				deviation_of(results, list, policy));
			for (int i = 0; i < DEPARTURES_SIZES; i++)
				fprintf(out, " %7.2f", refused_of(results, list, policy, i));
			fprintf(out, "  %9.2f\n", allocated_of(results, list, policy));
		}
	}
}

static void print_run(FILE *out, const struct replay_job *job, const struct departures_outcome *it)
{
	fprintf(out, "\"refused\":%.4f,\"allocated\":%.4f,\"sizes\":{", it->refused, it->allocated);
	for (int i = 0; i < DEPARTURES_SIZES; i++)
		fprintf(out,
			"%s\"%s\":{\"pods\":%llu,\"refused\":%llu,\"milli\":%llu,"
			"\"refused_milli\":%llu}",
			i ? "," : "", departures_size_name(i), (unsigned long long)it->size[i].pods,
			(unsigned long long)it->size[i].refused,
			(unsigned long long)it->size[i].milli,
			(unsigned long long)it->size[i].refused_milli);
	fputs("},\"windows\":[", out);
	for (uint32_t i = 0; i < job->living.windows; i++)
		fprintf(out, "%s{\"allocated\":%.4f,\"stranded\":%.4f,\"refused\":%.4f}",
			i ? "," : "", it->window[i].allocated, it->window[i].stranded,
			it->window[i].refused);
	fputs("]", out);
}

void departures_print_json(FILE *out, const struct replay_results *results)
{
	const struct replay_job *job = results->job;
	const char *comma = "";

	fprintf(out,
		"{\"overcommit_milli\":%u,\"load_milli\":%u,\"lifetimes\":%g,\"warm_up\":%g,"
		"\"recorded\":%s,\"stated\":%s,\"runs\":[\n",
		job->how.overcommit_milli, job->living.load_milli, job->living.lifetimes,
		job->living.warm_up, job->living.recorded ? "true" : "false",
		job->living.stated ? "true" : "false");
	for (size_t list = 0; list < job->lists_size; list++) {
		for (size_t i = 0; i < job->policies_size * job->seeds; i++) {
			size_t policy = i / job->seeds, seed = i % job->seeds;

			fprintf(out, "%s{\"list\":\"%s\",\"policy\":\"%s\",\"seed\":%llu,", comma,
				job->lists[list], cluster_policy_name(job->policies[policy]),
				(unsigned long long)job->first_seed + seed);
			print_run(out, job, replay_outcome(results, list, policy, seed));
			fputs("}", out);
			comma = ",\n";
		}
	}
	fputs("\n]}\n", out);
}

static double stranded_at(const struct replay_results *results, size_t list, size_t policy,
			  uint32_t window)
{
	double sum = 0;

	for (size_t i = 0; i < results->job->seeds; i++)
		sum += replay_outcome(results, list, policy, i)->window[window].stranded;
	return sum / (double)results->job->seeds;
}

void departures_print_svg(FILE *out, const struct replay_results *results, size_t list)
{
	const struct replay_job *job = results->job;
	uint32_t windows = job->living.windows;
	struct frame f = {60, 40, 540, 370, 0, job->living.lifetimes, 0, 1};
	char title[160];

	for (size_t policy = 0; policy < job->policies_size; policy++)
		for (uint32_t i = 0; i < windows; i++)
			f.to_y = fmax(f.to_y, stranded_at(results, list, policy, i));
	f.to_y = ceil(f.to_y / 2) * 2;
	snprintf(title, sizeof(title), "%s, load %g: stranded, percent of all GPUs, %zu seeds",
		 job->lists[list], job->living.load_milli / 1000.0, job->seeds);
	plot_axes(out, &f, f.to_y / 8, job->living.lifetimes / 5, title,
		  "time, in mean lifetimes of a pod");
	for (size_t policy = 0; policy < job->policies_size; policy++) {
		fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
			plot_colour(policy));
		for (uint32_t i = 0; i < windows; i++)
			plot_point(out, &f, job->living.lifetimes * (i + 1) / windows,
				   stranded_at(results, list, policy, i));
		fputs("\"/>\n", out);
		plot_label(out, &f, policy, cluster_policy_name(job->policies[policy]));
	}
	fputs("</svg>\n", out);
}
