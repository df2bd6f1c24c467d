/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every type of the CUDA driver API, as declarations of our own.
 *
 * Names, layouts and values are CUDA 13.0's on 64-bit Linux, so that a program compiled with
 * NVIDIA's cuda.h and a library compiled with this header understand each other; `make abi-check`
 * compares the two. No NVIDIA file is needed to build mete.
 *
 * Unlike cuda.h no function is renamed by a macro: cuMemAlloc here is the function of that very
 * symbol (the one of before CUDA 3.2), and what programs call today is cuMemAlloc_v2. Types keep
 * both names: X_v1, X_v2, ..., and plain X for the newest.
 *
 * This header must not be included beside NVIDIA's cuda.h.
 */
#pragma once

#include "cuda/types_array.h"
#include "cuda/types_device.h"
#include "cuda/types_graph.h"
#include "cuda/types_handles.h"
#include "cuda/types_interop.h"
#include "cuda/types_launch.h"
#include "cuda/types_memory.h"
#include "cuda/types_process.h"
#include "cuda/types_result.h"
#include "cuda/types_texture.h"

#define CUDA_VERSION 13000
