/* SPDX-License-Identifier: Apache-2.0 */
/*                                                         sim/cuda/graph_device.h
 * Which graphs can be instantiated for launches by the device
 * (CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH). The host launches them as it does others; kernels
 * that launch graphs are not simulated, and the code of one does not link.
 */
#pragma once

#include "base/macros.h"
#include "cuda/types.h"
#include "sim/cuda/graph.h"

/* SUCCESS; NODE_OPERATION_NOT_SUPPORTED unless all nodes are kernels, copies and sets of memory
 * that the device reaches by itself, and child graphs of these; MULTIPLE_CTXS_NOT_SUPPORTED. */
CUgraphInstantiateResult graph_device_check(const struct CUgraph_st *graph);
