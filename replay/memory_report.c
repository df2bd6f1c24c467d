/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/memory_report.h"

#include "replay/plot.h"

/* The unit in which sizes are given. */
static double gib(uint64_t bytes)
{
	return (double)bytes / (1 << 30);
}

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

uint64_t memory_report_sequential(const struct memory_setup *s)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < s->tenants; i++) {
		const struct memory_load *l = &s->loads[i];
		uint64_t bursts = (l->work_ns + l->burst_ns - 1) / l->burst_ns;

		sum += l->work_ns + (bursts - 1) * l->pause_ns;
	}
	return sum;
}

void memory_report_print(FILE *out, const struct memory_report *r)
{
	const struct memory_setup *s = r->setup;
	const struct memory_outcome *o = r->outcome;

	fprintf(out, "%-12s %8s %9s %9s %9s %10s %9s %9s\n", "tenant", "set GiB", "kernels s",
		"ended s", "out GiB", "copied GiB", "in GiB", "longest s");
	for (uint32_t i = 0; i < s->tenants; i++) {
		const struct memory_tenant *t = &o->tenants[i];

		fprintf(out, "%-12.12s %8.1f %9.1f %9.1f %9.1f %10.1f %9.1f %9.2f\n",
			s->loads[i].name, gib(s->loads[i].set_bytes), seconds(t->served_ns),
			seconds(t->ended_ns), gib(t->left_bytes), gib(t->copied_bytes),
			gib(t->came_bytes), seconds(t->longest_ns));
		if (t->refused)
			fprintf(out, "%-12.12s was refused memory %llu times\n", s->loads[i].name,
				(unsigned long long)t->refused);
	}
	fprintf(out,
		"all ended after %.1f s; one after the other alone: %.1f s (%.3f of it)\n"
		"%llu handovers, %.1f GiB out (%.1f copied), %.1f GiB in; %.1f %% of what the link "
		"can move both ways\n",
		seconds(o->ended_ns), seconds(r->sequential_ns),
		r->sequential_ns ? (double)o->ended_ns / (double)r->sequential_ns : 0,
		(unsigned long long)o->sets, gib(o->left_bytes), gib(o->copied_bytes),
		gib(o->came_bytes), memory_outcome_efficiency(o, s) / 10.0);
}

void memory_report_json(FILE *out, const struct memory_report *r)
{
	const struct memory_setup *s = r->setup;
	const struct memory_outcome *o = r->outcome;

	fprintf(out,
		"{\"ended_s\":%.6f,\"sequential_s\":%.6f,\"handovers\":%llu,\"out_bytes\":%llu,"
		"\"copied_bytes\":%llu,\"in_bytes\":%llu,\"efficiency\":%.3f,"
		"\"resident_most_bytes\":%llu,\"store_most_bytes\":%llu,\"tenants\":[\n",
		seconds(o->ended_ns), seconds(r->sequential_ns), (unsigned long long)o->sets,
		(unsigned long long)o->left_bytes, (unsigned long long)o->copied_bytes,
		(unsigned long long)o->came_bytes, memory_outcome_efficiency(o, s) / 1000.0,
		(unsigned long long)o->resident_most, (unsigned long long)o->store_most);
	for (uint32_t i = 0; i < s->tenants; i++) {
		const struct memory_tenant *t = &o->tenants[i];

		fprintf(out,
			"%s{\"name\":\"%s\",\"set_bytes\":%llu,\"kernels_s\":%.6f,\"ended_s\":%.6f,"
			"\"out_bytes\":%llu,\"copied_bytes\":%llu,\"in_bytes\":%llu,"
			"\"longest_wait_s\":%.6f,\"refused\":%llu}",
			i ? ",\n" : "", s->loads[i].name, (unsigned long long)s->loads[i].set_bytes,
			seconds(t->served_ns), seconds(t->ended_ns),
			(unsigned long long)t->left_bytes, (unsigned long long)t->copied_bytes,
			(unsigned long long)t->came_bytes, seconds(t->longest_ns),
			(unsigned long long)t->refused);
	}
	fputs("],\n\"spans\":[", out);
	for (size_t i = 0; i < o->spans_size; i++)
		fprintf(out, "%s[%.6f,%.6f,%llu,%llu]", i ? ",\n" : "\n",
			seconds(o->spans[i].began_ns), seconds(o->spans[i].took_ns),
			(unsigned long long)o->spans[i].left_bytes,
			(unsigned long long)o->spans[i].came_bytes);
	fputs("]}\n", out);
}

/* Draws what had been moved at each time: into the device, or out of it if `in` is 0. */
static void print_curve(FILE *out, const struct memory_report *r, const struct frame *f, int in)
{
	uint64_t sum = 0;

	fprintf(out, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"",
		plot_colour((size_t)in + 5));
	plot_point(out, f, 0, 0);
	for (size_t i = 0; i < r->outcome->spans_size; i++) {
		const struct memory_span *s = &r->outcome->spans[i];

		plot_point(out, f, seconds(s->began_ns), gib(sum));
		sum += in ? s->came_bytes : s->left_bytes;
		plot_point(out, f, seconds(s->began_ns + s->took_ns), gib(sum));
	}
	plot_point(out, f, seconds(r->outcome->ended_ns), gib(sum));
	fputs("\"/>\n", out);
}

/* Returns 1, 2 or 5 times a power of ten, so that there are at most six steps or so. */
static double step_of(double whole)
{
	double step = 1e-3;

	while (whole > 30 * step)
		step *= 10;
	if (whole <= 6 * step)
		return step;
	return whole <= 12 * step ? 2 * step : 5 * step;
}

void memory_report_svg(FILE *out, const struct memory_report *r)
{
	const struct memory_outcome *o = r->outcome;
	uint64_t most = o->left_bytes > o->came_bytes ? o->left_bytes : o->came_bytes;
	double x = step_of(seconds(o->ended_ns)), y = step_of(gib(most) + 0.01);
	struct frame f = {.left = 70, .top = 40, .width = 530, .height = 370};

	while (f.to_x < seconds(o->ended_ns))
		f.to_x += x;
	while (f.to_y < gib(most) + 0.01)
		f.to_y += y;
	plot_axes(out, &f, y, x, "Memory moved, GiB", "seconds");
	for (int in = 0; in < 2; in++) {
		print_curve(out, r, &f, in);
		plot_label(out, &f, (size_t)in + 5, in ? "in" : "out");
	}
	fputs("</svg>\n", out);
}
