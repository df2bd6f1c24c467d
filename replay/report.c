/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "replay/job.h"
#include "replay/plot.h"

void replay_tally_add(struct replay_tally *tally, double value)
{
	double before = value - tally->mean;

	tally->mean += before / (double)++tally->size;
	tally->squares += before * (value - tally->mean);
}

struct replay_mean replay_tally_mean(const struct replay_tally *tally)
{
	double others = (double)tally->size - 1;

	return (struct replay_mean){tally->mean, others > 0 ? sqrt(tally->squares / others) : 0};
}

static struct replay_mean mean_of(const struct replay_results *results, size_t list, size_t policy,
				  int percent, bool stranded)
{
	struct replay_tally tally = {0};

	for (size_t i = 0; i < results->job->seeds; i++) {
		const struct openb_curve *curve = replay_curve(results, list, policy, i);

		replay_tally_add(&tally,
				 stranded ? curve->stranded[percent] : curve->allocated[percent]);
	}
	return replay_tally_mean(&tally);
}

static double extreme_of(const struct replay_results *results, size_t list, size_t policy,
			 int percent, bool stranded, int sign)
{
	double most = 0;

	for (size_t i = 0; i < results->job->seeds; i++) {
		const struct openb_curve *curve = replay_curve(results, list, policy, i);
		double v = stranded ? curve->stranded[percent] : curve->allocated[percent];

		if (i == 0 || sign * v > sign * most)
			most = v;
	}
	return most;
}

struct replay_mean replay_allocated(const struct replay_results *results, size_t list,
				    size_t policy, int percent)
{
	return mean_of(results, list, policy, percent, false);
}

struct replay_mean replay_stranded(const struct replay_results *results, size_t list, size_t policy,
				   int percent)
{
	return mean_of(results, list, policy, percent, true);
}

void replay_print_tables(FILE *out, const struct replay_results *results)
{
	static const int percents[] = {50, 90, 100, 110, 130};
	const struct replay_job *job = results->job;

	for (size_t list = 0; list < job->lists_size; list++) {
		fprintf(out, "%s%s: mean of %zu seeds, percent of all GPUs (deviation)\n",
			list ? "\n" : "", job->lists[list], job->seeds);
		fprintf(out, "%-13s", "allocated at");
		for (size_t k = 0; k < ARRAY_SIZE(percents); k++)
			fprintf(out, " %9d %%  ", percents[k]);
		fprintf(out, "stranded at 100 %%   130 %%\n");
		for (size_t policy = 0; policy < job->policies_size; policy++) {
			fprintf(out, "%-13s", cluster_policy_name(job->policies[policy]));
			for (size_t k = 0; k < ARRAY_SIZE(percents); k++) {
				struct replay_mean m =
					replay_allocated(results, list, policy, percents[k]);

				fprintf(out, " %6.2f (%4.2f)", m.mean, m.deviation);
			}
			fprintf(out, "  %15.2f %7.2f\n",
				replay_stranded(results, list, policy, 100).mean,
				replay_stranded(results, list, policy, 130).mean);
		}
	}
}

static void print_numbers(FILE *out, const char *name, const double *values)
{
	fprintf(out, "\"%s\":[", name);
	for (int i = 0; i < OPENB_PERCENT; i++)
		fprintf(out, "%s%.4f", i ? "," : "", values[i]);
	fputs("]", out);
}

void replay_print_json(FILE *out, const struct replay_results *results)
{
	const struct replay_job *job = results->job;
	const char *comma = "";

	fprintf(out, "{\"overcommit_milli\":%u,\"runs\":[\n", job->how.overcommit_milli);
	for (size_t list = 0; list < job->lists_size; list++) {
		for (size_t i = 0; i < job->policies_size * job->seeds; i++) {
			size_t policy = i / job->seeds, seed = i % job->seeds;
			const struct openb_curve *curve = replay_curve(results, list, policy, seed);

			fprintf(out, "%s{\"list\":\"%s\",\"policy\":\"%s\",\"seed\":%llu,", comma,
				job->lists[list], cluster_policy_name(job->policies[policy]),
				(unsigned long long)job->first_seed + seed);
			fprintf(out, "\"placed\":%u,\"refused\":%u,", curve->placed,
				curve->refused);
			print_numbers(out, "allocated", curve->allocated);
			fputs(",", out);
			print_numbers(out, "stranded", curve->stranded);
			fputs(",", out);
			print_numbers(out, "bound", curve->bound);
			fputs("}", out);
			comma = ",\n";
		}
	}
	fputs("\n]}\n", out);
}

/* Draws a line per policy: the mean over the seeds. */
static void print_line(FILE *out, const struct frame *f, const struct replay_results *results,
		       size_t list, size_t policy, bool stranded)
{
	int from = (int)f->from_x;

	fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
		plot_colour(policy));
	for (int x = from; x < OPENB_PERCENT; x++)
		plot_point(out, f, x, mean_of(results, list, policy, x, stranded).mean);
	fputs("\"/>\n", out);
	plot_label(out, f, policy, cluster_policy_name(results->job->policies[policy]));
}

/* Draws the published results, dashed, in the colour of the policy. */
static bool print_published(FILE *out, const struct frame *f, const struct replay_results *results,
			    size_t list, size_t policy, bool stranded)
{
	const struct published *it =
		replay_published(results, list, stranded, results->job->policies[policy]);

	if (!it)
		return false;
	fprintf(out,
		"<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" "
		"stroke-dasharray=\"4 3\" points=\"",
		plot_colour(policy));
	for (int x = (int)f->from_x; x < OPENB_PERCENT; x++)
		plot_point(out, f, x, it->percent[x]);
	fputs("\"/>\n", out);
	return true;
}

/* Draws the bound. It is the same for all policies, because it depends only on the arrivals. */
static void print_bound(FILE *out, const struct frame *f, const struct replay_results *results,
			size_t list)
{
	size_t seeds = results->job->seeds;

	fputs("<polyline fill=\"none\" stroke=\"black\" stroke-width=\"1\" "
	      "stroke-dasharray=\"1 3\" points=\"",
	      out);
	for (int x = (int)f->from_x; x < OPENB_PERCENT; x++) {
		double sum = 0;

		for (size_t i = 0; i < seeds; i++)
			sum += replay_curve(results, list, 0, i)->bound[x];
		plot_point(out, f, x, sum / (double)seeds);
	}
	fputs("\"/>\n", out);
}

/* Draws the range from the lowest to the highest seed. */
static void print_spread(FILE *out, const struct frame *f, const struct replay_results *results,
			 size_t list, size_t policy, bool stranded)
{
	int from = (int)f->from_x;

	fprintf(out, "<polygon fill=\"%s\" fill-opacity=\"0.15\" points=\"", plot_colour(policy));
	for (int x = from; x < OPENB_PERCENT; x++)
		plot_point(out, f, x, extreme_of(results, list, policy, x, stranded, -1));
	for (int x = OPENB_PERCENT - 1; x >= from; x--)
		plot_point(out, f, x, extreme_of(results, list, policy, x, stranded, 1));
	fputs("\"/>\n", out);
}

void replay_print_svg(FILE *out, const struct replay_results *results, size_t list, bool stranded)
{
	const struct replay_job *job = results->job;
	struct frame f = {60, 40, 540, 370, stranded ? 0 : 80, 130, stranded ? 0 : 78, 0};
	size_t notes = job->policies_size + 1;
	bool published = false;
	double most = 0;
	char title[160];

	for (size_t policy = 0; policy < job->policies_size; policy++)
		for (int x = (int)f.from_x; x < OPENB_PERCENT; x++)
			most = fmax(most, mean_of(results, list, policy, x, stranded).mean);
	f.to_y = stranded ? fmin(100, 2 * ceil(most / 2)) : 100;
	snprintf(title, sizeof(title), "%s: %s, percent of all GPUs, mean of %zu seeds",
		 job->lists[list], stranded ? "stranded" : "allocated", job->seeds);
	plot_axes(out, &f, 2, 10, title, "GPUs asked for so far, percent of all GPUs");
	for (size_t policy = 0; policy < job->policies_size; policy++)
		print_spread(out, &f, results, list, policy, stranded);
	for (size_t policy = 0; policy < job->policies_size; policy++)
		print_line(out, &f, results, list, policy, stranded);
	for (size_t policy = 0; policy < job->policies_size; policy++)
		published |= print_published(out, &f, results, list, policy, stranded);
	if (published)
		plot_note(out, &f, notes++, "4 3", "published");
	if (!stranded && job->how.overcommit_milli <= 1000) {
		print_bound(out, &f, results, list);
		plot_note(out, &f, notes++, "1 3", "parts packed offline");
	}
	fputs("</svg>\n", out);
}
