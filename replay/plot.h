/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the frame of a plot as SVG: the axes, and the labels beside it. */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* The frame's place in pixels, and the range of values that it shows. */
struct frame {
	double left, top, width, height;
	double from_x, to_x, from_y, to_y;
};

const char *plot_colour(size_t index);
void plot_axes(FILE *out, const struct frame *f, double step_y, double step_x, const char *title,
	       const char *along);
/* Writes "X,Y ", clamped to the frame. */
void plot_point(FILE *out, const struct frame *f, double x, double y);
void plot_label(FILE *out, const struct frame *f, size_t index, const char *text);
/* A label for a kind of line that has a dash pattern but no colour of its own. */
void plot_note(FILE *out, const struct frame *f, size_t index, const char *dashes,
	       const char *text);
