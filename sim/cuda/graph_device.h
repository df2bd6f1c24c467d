/* SPDX-License-Identifier: Apache-2.0 */
/*                                                         sim/cuda/graph_device.h
 * Graphs that the device may launch (CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH): which ones can be
 * instantiated so. The host launches them as it does others; kernels that launch graphs are not
 * simulated, and the code of one does not link.
 */
#pragma once

#include "base/macros.h"
#include "cuda/types.h"
#include "sim/cuda/graph.h"

/* SUCCESS; NODE_OPERATION_NOT_SUPPORTED for all but kernels, copies and sets of what the device
 * reaches by itself, and children of these; MULTIPLE_CTXS_NOT_SUPPORTED. */
CUgraphInstantiateResult graph_device_check(const struct CUgraph_st *graph);
