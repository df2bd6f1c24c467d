/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of a plot, as SVG: axes, and labels beside it. */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* In pixels, and what it shows. */
struct frame {
	double left, top, width, height;
	double from_x, to_x, from_y, to_y;
};

const char *plot_colour(size_t index);
void plot_axes(FILE *out, const struct frame *f, double step_y, double step_x, const char *title,
	       const char *along);
/* "X,Y ", kept within the frame. */
void plot_point(FILE *out, const struct frame *f, double x, double y);
void plot_label(FILE *out, const struct frame *f, size_t index, const char *text);
/* A label for a kind of line that has no colour of its own. */
void plot_note(FILE *out, const struct frame *f, size_t index, const char *dashes,
	       const char *text);
