/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUresult, from cuda/errors.def.
 */
#pragma once

typedef enum cudaError_enum {
#define CUDA_RESULT(name, number, text) name = number,
#include "cuda/errors.def"
#undef CUDA_RESULT
} CUresult;
