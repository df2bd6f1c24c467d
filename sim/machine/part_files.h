/* SPDX-License-Identifier: Apache-2.0 */
/*                                                           sim/machine/part_files.h
 * The files by which NVIDIA's driver says which device nodes give access to a part of a GPU, below
 * METE_SIM_DIR as they are below / of a real machine:
 *
 *	proc/driver/nvidia/capabilities/gpuN/mig/giG/access        "DeviceFileMinor: 12"
 *	proc/driver/nvidia/capabilities/gpuN/mig/giG/ciC/access
 *
 * They are there where parts are; nothing of the simulator reads them. The nodes of
 * /dev/nvidia-caps are not made, which takes root.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A GPU instance is there or not, with its compute instance or without it. A file that cannot be
 * written is missing, and nothing else. */
void part_files_write(const char *folder, uint32_t gpu, uint32_t instance, bool there,
		      bool complete);

/* What an earlier node left in the folder. */
void part_files_clear(const char *folder);
