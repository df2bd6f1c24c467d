/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/plot.h"

#include "base/macros.h"

const char *plot_colour(size_t index)
{
	static const char *const colours[] = {"#999999", "#e69f00", "#56b4e9", "#009e73", "#cc79a7",
					      "#0072b2", "#d55e00", "#000000", "#6a3d9a"};

	return colours[index % ARRAY_SIZE(colours)];
}

static double at_x(const struct frame *f, double x)
{
	return f->left + (x - f->from_x) / (f->to_x - f->from_x) * f->width;
}

static double at_y(const struct frame *f, double y)
{
	return f->top + (f->to_y - y) / (f->to_y - f->from_y) * f->height;
}

void plot_axes(FILE *out, const struct frame *f, double step_y, double step_x, const char *title,
	       const char *along)
{
	int rows = (int)((f->to_y - f->from_y) / step_y + 0.5);
	int columns = (int)((f->to_x - f->from_x) / step_x + 0.5);

	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"760\" height=\"460\" "
		"font-family=\"sans-serif\" font-size=\"12\">\n"
		"<rect width=\"760\" height=\"460\" fill=\"white\"/>\n"
		"<text x=\"%.0f\" y=\"24\" font-size=\"15\">%s</text>\n"
		"<text x=\"%.0f\" y=\"448\">%s</text>\n",
		f->left, title, f->left, along);
	for (int i = 0; i <= rows; i++) {
		double y = f->from_y + i * step_y;

		fprintf(out,
			"<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>"
			"<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n",
			f->left, at_y(f, y), f->left + f->width, at_y(f, y), f->left - 6,
			at_y(f, y) + 4, y);
	}
	for (int i = 0; i <= columns; i++) {
		double x = f->from_x + i * step_x;

		fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%g</text>\n",
			at_x(f, x), f->top + f->height + 18, x);
	}
}

void plot_point(FILE *out, const struct frame *f, double x, double y)
{
	if (y < f->from_y)
		y = f->from_y;
	if (y > f->to_y)
		y = f->to_y;
	fprintf(out, "%.1f,%.1f ", at_x(f, x), at_y(f, y));
}

void plot_label(FILE *out, const struct frame *f, size_t index, const char *text)
{
	double y = f->top + 16 + 20 * (double)index;

	fprintf(out,
		"<line x1=\"620\" y1=\"%.1f\" x2=\"644\" y2=\"%.1f\" stroke=\"%s\" "
		"stroke-width=\"3\"/><text x=\"650\" y=\"%.1f\">%s</text>\n",
		y, y, plot_colour(index), y + 4, text);
}

void plot_note(FILE *out, const struct frame *f, size_t index, const char *dashes, const char *text)
{
	double y = f->top + 16 + 20 * (double)index;

	fprintf(out,
		"<line x1=\"620\" y1=\"%.1f\" x2=\"644\" y2=\"%.1f\" stroke=\"black\" "
		"stroke-dasharray=\"%s\"/><text x=\"650\" y=\"%.1f\">%s</text>\n",
		y, y, dashes, y + 4, text);
}
