/* SPDX-License-Identifier: Apache-2.0 */
/* A part of a GPU that MIG has divided, as the driver reports it. */
#pragma once

#include <stdint.h>

/* All 0: it is a whole GPU, or the driver does not report it. */
struct gpu_part {
	uint32_t multiprocessors, gpu_slices, compute_slices;
	uint32_t copy_engines, decoders, encoders, jpegs, ofas;
	uint64_t memory_mib;
	/* Slices of the GPU's memory that its GPU instance has; 0 of them: unknown. */
	uint32_t memory_first, memory_slices;
	/* All slices of the GPU; 0: unknown. */
	uint32_t gpu_memory_slices, gpu_compute_slices;
};
