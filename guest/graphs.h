/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of graphs: a memory node's address exists from the moment the node is made, its memory
 * from the first launch (or upload) of an executable graph with that node until
 * cuDeviceGraphMemTrim() or the end of the graph. The driver says how much there is: a device's
 * RESERVED_MEM_CURRENT is the charge. Before a launch that may add to it, as much as the nodes ask
 * for is charged; afterwards what was added.
 *
 * Costs nothing until a first memory node is made: only then does this module stand between the
 * launch trampolines and the driver (guest/real.h, real_between). The gate is before it.
 */
#pragma once

#include <stdbool.h>

/* A memory node is being made, or captured. */
void graphs_begin(void);

/* Has there been any? */
bool graphs_used(void);

/* Reads again what graphs hold on a device (-1: on all), and gives back the difference. */
void graphs_settle(int device);

/* The same after asking the driver to let go of what no graph uses. Not under capture. */
void graphs_trim(int device);

/* In a child of fork(). */
void graphs_forget(void);
