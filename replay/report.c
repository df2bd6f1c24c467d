/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "replay/job.h"

static struct replay_mean mean_of(const struct replay_results *results, size_t list, size_t policy,
				  int percent, bool stranded)
{
	size_t n = results->job->seeds;
	double sum = 0, squares = 0;

	for (size_t i = 0; i < n; i++) {
		const struct openb_curve *curve = replay_curve(results, list, policy, i);

		sum += stranded ? curve->stranded[percent] : curve->allocated[percent];
	}
	for (size_t i = 0; i < n; i++) {
		const struct openb_curve *curve = replay_curve(results, list, policy, i);
		double d = (stranded ? curve->stranded[percent] : curve->allocated[percent]) -
			   sum / (double)n;

		squares += d * d;
	}
	return (struct replay_mean){sum / (double)n, n > 1 ? sqrt(squares / (double)(n - 1)) : 0};
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
			fprintf(out, "%-13s", openb_policy_name(job->policies[policy]));
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
				job->lists[list], openb_policy_name(job->policies[policy]),
				(unsigned long long)job->first_seed + seed);
			fprintf(out, "\"placed\":%u,\"refused\":%u,", curve->placed,
				curve->refused);
			print_numbers(out, "allocated", curve->allocated);
			fputs(",", out);
			print_numbers(out, "stranded", curve->stranded);
			fputs("}", out);
			comma = ",\n";
		}
	}
	fputs("\n]}\n", out);
}

/* The plot's frame, in pixels, and what it shows, in percent. */
struct frame {
	double left, top, width, height;
	double from_x, to_x, from_y, to_y;
};

static double at_x(const struct frame *f, double percent)
{
	return f->left + (percent - f->from_x) / (f->to_x - f->from_x) * f->width;
}

static double at_y(const struct frame *f, double percent)
{
	return f->top + (f->to_y - percent) / (f->to_y - f->from_y) * f->height;
}

static void print_axes(FILE *out, const struct frame *f, int step_y, const char *title)
{
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"460\" "
		"font-family=\"sans-serif\" font-size=\"12\">\n"
		"<rect width=\"760\" height=\"460\" fill=\"white\"/>\n"
		"<text x=\"%.0f\" y=\"24\" font-size=\"15\">%s</text>\n"
		"<text x=\"%.0f\" y=\"448\">GPUs asked for so far, percent of all GPUs</text>\n",
		f->left, title, f->left);
	for (int y = (int)f->from_y; y <= (int)f->to_y; y += step_y)
		fprintf(out,
			"<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>"
			"<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%d</text>\n",
			f->left, at_y(f, y), f->left + f->width, at_y(f, y), f->left - 6,
			at_y(f, y) + 4, y);
	for (int x = (int)f->from_x; x <= (int)f->to_x; x += 10)
		fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%d</text>\n",
			at_x(f, x), f->top + f->height + 18, x);
}

/* One line per policy: the mean over the seeds. */
static void print_line(FILE *out, const struct frame *f, const struct replay_results *results,
		       size_t list, size_t policy, bool stranded)
{
	static const char *const colours[] = {"#999999", "#e69f00", "#56b4e9", "#009e73", "#cc79a7",
					      "#0072b2", "#d55e00", "#000000", "#6a3d9a"};
	const char *colour = colours[policy % ARRAY_SIZE(colours)];
	double label_y = f->top + 16 + 20 * (double)policy;
	int from = (int)f->from_x;

	fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour);
	for (int x = from; x < OPENB_PERCENT; x++) {
		double y = mean_of(results, list, policy, x, stranded).mean;

		if (y < f->from_y)
			y = f->from_y;
		if (y > f->to_y)
			y = f->to_y;
		fprintf(out, "%.1f,%.1f ", at_x(f, x), at_y(f, y));
	}
	fprintf(out,
		"\"/>\n<line x1=\"620\" y1=\"%.1f\" x2=\"644\" y2=\"%.1f\" stroke=\"%s\" "
		"stroke-width=\"3\"/><text x=\"650\" y=\"%.1f\">%s</text>\n",
		label_y, label_y, colour, label_y + 4,
		openb_policy_name(results->job->policies[policy]));
}

void replay_print_svg(FILE *out, const struct replay_results *results, size_t list, bool stranded)
{
	const struct replay_job *job = results->job;
	struct frame f = {60, 40, 540, 370, stranded ? 0 : 80, 130, stranded ? 0 : 78, 0};
	double most = 0;
	char title[160];

	for (size_t policy = 0; policy < job->policies_size; policy++)
		for (int x = (int)f.from_x; x < OPENB_PERCENT; x++)
			most = fmax(most, mean_of(results, list, policy, x, stranded).mean);
	f.to_y = stranded ? fmin(100, 2 * ceil(most / 2)) : 100;
	snprintf(title, sizeof(title), "%s: %s, percent of all GPUs, mean of %zu seeds",
		 job->lists[list], stranded ? "stranded" : "allocated", job->seeds);
	print_axes(out, &f, 2, title);
	for (size_t policy = 0; policy < job->policies_size; policy++)
		print_line(out, &f, results, list, policy, stranded);
	fputs("</svg>\n", out);
}
