/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of graphs. A memory node's address exists as soon as the node is created. Its memory
 * exists from the first launch (or upload) of an executable graph with that node until
 * cuDeviceGraphMemTrim(), even after the graph's end: graphs reuse it. The charge is the device's
 * RESERVED_MEM_CURRENT, which the driver reports. Before a launch that may increase it, the nodes'
 * requests are charged; afterwards the charge becomes the actual increase. If there is no credit,
 * for a launch or any other allocation, memory that no graph uses is trimmed before anything is
 * refused.
 *
 * It costs nothing until the first memory node is created: only then is this module inserted
 * between the launch trampolines and the driver, after the gate (guest/driver/real.h,
 * real_between).
 */
#pragma once

#include <stdbool.h>

/* A memory node is being created or captured. */
void graphs_begin(void);

/* Rereads what graphs hold on a device (-1: on all), and returns the difference. */
void graphs_settle(int device);
