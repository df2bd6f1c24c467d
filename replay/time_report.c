/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/time_report.h"

#include <stdlib.h>

#include "replay/time_measure.h"

enum { COLOURS = 8, WIDTH = 760, HEIGHT = 420 };

static const char *const colours[COLOURS] = {"#0072b2", "#e69f00", "#009e73", "#cc79a7",
					     "#56b4e9", "#d55e00", "#999999", "#6a3d9a"};

static double part_of(const uint64_t *sums, const struct time_setup *s,
		      const struct time_outcome *o, uint32_t tenant)
{
	double there =
		(double)(s->loads[tenant].leave_ns ? s->loads[tenant].leave_ns : s->length_ns);

	there -= (double)s->loads[tenant].join_ns;
	if (!o->samples || there <= 0)
		return 0;
	return 100 * (double)sums[(o->samples - 1) * s->tenants + tenant] / there;
}

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

/* The share of each tenant (0 .. 1) if all of them are busy. */
static void ideal_of(const struct time_setup *s, double *ret_shares)
{
	time_measure_ideal(s->loads, s->tenants, ret_shares);
}

static double speed(const struct time_report *r)
{
	return 2 * (double)r->setup->length_ns / 1e9 / (r->real_s > 0 ? r->real_s : 1e-9);
}

void time_report_print(FILE *out, const struct time_report *r)
{
	const struct time_setup *s = r->setup;
	owned(free) double *ideal = calloc(s->tenants, sizeof(*ideal));

	if (!ideal)
		return;
	ideal_of(s, ideal);
	fprintf(out,
		"%.0f s of a device, percent of its time; beside it the hardware's slices alone\n"
		"%-12s %6s %8s %8s %8s %8s  %8s %10s  %9s %9s %9s %9s\n",
		(double)s->length_ns / 1e9, "tenant", "weight", "if busy", "due", "charged", "ran",
		"slices", "turns/s", "longest", "p50 ms", "p99 ms", "slices p99");
	for (uint32_t i = 0; i < s->tenants; i++) {
		const struct time_outcome *t = r->turns, *p = r->plain;

		fprintf(out, "%-12.12s %6u %8.2f %8.2f %8.2f %8.2f  %8.2f %10.1f  %9.2f",
			s->loads[i].name, s->loads[i].share.weight, 100 * ideal[i],
			part_of(t->entitled, s, t, i), part_of(t->charged, s, t, i),
			part_of(t->served, s, t, i), part_of(p->served, s, p, i),
			(double)t->turns[i] / ((double)s->length_ns / 1e9), ms(t->longest_ns[i]));
		if (t->waits[i].size)
			fprintf(out, " %9.2f %9.2f %9.2f", ms(time_series_part(&t->waits[i], 500)),
				ms(time_series_part(&t->waits[i], 990)),
				ms(time_series_part(&p->waits[i], 990)));
		fputc('\n', out);
	}
	fprintf(out, "%.0f times as fast as real time\n", speed(r));
}

static void print_tenant(FILE *out, const struct time_report *r, uint32_t i, double ideal)
{
	const struct time_setup *s = r->setup;
	const struct time_outcome *t = r->turns, *p = r->plain;

	fprintf(out,
		"{\"name\":\"%s\",\"weight\":%u,\"if_busy\":%.4f,\"entitled\":%.4f,"
		"\"charged\":%.4f,\"ran\":%.4f,\"slices\":%.4f,\"turns\":%llu,"
		"\"longest_wait_ms\":%.4f,\"requests\":%zu,\"p50_ms\":%.4f,\"p99_ms\":%.4f,"
		"\"slices_p50_ms\":%.4f,\"slices_p99_ms\":%.4f,\"seconds\":[",
		s->loads[i].name, s->loads[i].share.weight, 100 * ideal,
		part_of(t->entitled, s, t, i), part_of(t->charged, s, t, i),
		part_of(t->served, s, t, i), part_of(p->served, s, p, i),
		(unsigned long long)t->turns[i], ms(t->longest_ns[i]), t->waits[i].size,
		ms(time_series_part(&t->waits[i], 500)), ms(time_series_part(&t->waits[i], 990)),
		ms(time_series_part(&p->waits[i], 500)), ms(time_series_part(&p->waits[i], 990)));
	for (size_t k = 0, step = 1000000000 / s->sample_ns; k + step < t->samples; k += step)
		fprintf(out, "%s%.3f", k ? "," : "",
			(double)(t->charged[(k + step) * s->tenants + i] -
				 t->charged[k * s->tenants + i]) /
				1e7);
	fputs("]}", out);
}

void time_report_json(FILE *out, const struct time_report *r)
{
	owned(free) double *ideal = calloc(r->setup->tenants, sizeof(*ideal));

	if (!ideal)
		return;
	ideal_of(r->setup, ideal);
	fprintf(out, "{\"length_s\":%.3f,\"seed\":%llu,\"tenants\":[\n",
		(double)r->setup->length_ns / 1e9, (unsigned long long)r->setup->seed);
	for (uint32_t i = 0; i < r->setup->tenants; i++) {
		fputs(i ? ",\n" : "", out);
		print_tenant(out, r, i, ideal[i]);
	}
	fputs("\n]}\n", out);
}

/* Draws the tenant's layer second by second: between what the tenants below it had,
 * and that plus its own part. */
static void print_layer(FILE *out, const struct time_report *r, uint32_t tenant, size_t step)
{
	const struct time_setup *s = r->setup;
	const struct time_outcome *t = r->turns;
	size_t last = (t->samples - 1) / step;

	fprintf(out, "<polygon fill=\"%s\" stroke=\"white\" stroke-width=\"0.5\" points=\"",
		colours[tenant % COLOURS]);
	for (size_t edge = 0; edge < 2 * last; edge++) {
		bool upper = edge < last;
		size_t k = upper ? edge : 2 * last - 1 - edge;
		double sum = 0;

		for (uint32_t i = 0; i < tenant + upper; i++)
			sum += (double)(t->charged[(k + 1) * step * s->tenants + i] -
					t->charged[k * step * s->tenants + i]);
		sum /= (double)(step * s->sample_ns);
		fprintf(out, "%.1f,%.1f ", 60 + 540 * (double)k / (double)(last > 1 ? last - 1 : 1),
			380 - 330 * sum);
	}
	fputs("\"/>\n", out);
}

void time_report_svg(FILE *out, const struct time_report *r)
{
	const struct time_setup *s = r->setup;
	size_t step = 1000000000 / s->sample_ns;

	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
		"font-family=\"sans-serif\" font-size=\"12\">\n"
		"<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n"
		"<text x=\"60\" y=\"28\" font-size=\"15\">Time charged, percent of each "
		"second</text>\n"
		"<text x=\"60\" y=\"408\">0 to %.0f seconds</text>\n",
		WIDTH, HEIGHT, WIDTH, HEIGHT, (double)s->length_ns / 1e9);
	for (int y = 0; y <= 100; y += 20)
		fprintf(out,
			"<text x=\"52\" y=\"%.1f\" text-anchor=\"end\">%d</text>"
			"<line x1=\"60\" x2=\"600\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n",
			384 - 3.3 * y, y, 380 - 3.3 * y, 380 - 3.3 * y);
	for (uint32_t i = 0; i < s->tenants && r->turns->samples > step; i++) {
		print_layer(out, r, i, step);
		if (i < 16)
			fprintf(out,
				"<rect x=\"620\" y=\"%u\" width=\"14\" height=\"14\" fill=\"%s\"/>"
				"<text x=\"640\" y=\"%u\">%s</text>\n",
				50 + 20 * i, colours[i % COLOURS], 62 + 20 * i, s->loads[i].name);
	}
	fputs("</svg>\n", out);
}
