/* SPDX-License-Identifier: Apache-2.0 */
/*                                                           sim/machine/part_files.h
 * The files by which NVIDIA's driver says which device nodes give access to a part of a GPU, below
 * METE_SIM_DIR as they are below / of a real machine:
 *
 *	proc/driver/nvidia/capabilities/gpuN/mig/giG/access        "DeviceFileMinor: 12"
 *	proc/driver/nvidia/capabilities/gpuN/mig/giG/ciC/access
 *
 * They exist as long as their parts; the simulator itself does not read them. The nodes of
 * /dev/nvidia-caps are not made, as that takes root.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Makes or removes the files of a GPU instance, with or without its compute instance. A file that
 * cannot be written is just missing. */
void part_files_write(const char *folder, uint32_t gpu, uint32_t instance, bool there,
		      bool complete);

/* Removes the files of an earlier node. */
void part_files_clear(const char *folder);
