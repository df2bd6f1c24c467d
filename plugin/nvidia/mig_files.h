/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that give a container access to a part of a GPU, in addition to the GPU's own file: the
 * two files in /dev/nvidia-caps for its GPU instance and its compute instance. The driver names
 * them in /proc/driver/nvidia/capabilities.
 */
#pragma once

#include "base/macros.h"

enum { MIG_FILE = 48 };

/* The number of "DeviceFileMinor: 12" in the text; -EINVAL: it is missing. Pure. */
must_check int mig_files_minor(const char *text, unsigned *ret_minor);

/* "/dev/nvidia-caps/nvidia-cap12" for the GPU instance and for the compute instance, from the
 * driver's files below `root`. -errno: the files do not tell. */
must_check int mig_files_find(const char *root, int minor, int gpu_instance, int compute_instance,
			      char ret_files[2][MIG_FILE]);
