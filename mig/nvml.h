/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                          mig/nvml.h
 * The driver's side of MIG: reads what GPUs are divided into, and makes and destroys parts. Calls
 * block, some for a second each; one thread at a time. Changes need root.
 *
 * Sources: NVML's reference, group "Multi Instance GPU Management"
 * (docs.nvidia.com/deploy/nvml-api).
 */
#pragma once

#include "mig/gpu.h"

struct mig_nvml;

enum {
	MIG_IN_USE = 1,
	MIG_PENDING, /* the mode changes when the GPU is reset */
};

/* `folder`: of the driver's libraries; NULL: as the loader finds them. */
must_check int mig_open(const char *folder, struct mig_nvml **ret_nvml, struct fault *why);
void mig_close(struct mig_nvml *nvml);

uint32_t mig_count(const struct mig_nvml *nvml);
must_check int mig_read(const struct mig_nvml *nvml, uint32_t index, struct mig_gpu *ret_gpu,
			struct fault *why);

/* MIG_IN_USE: somebody has opened it; the driver may have noted the new mode for the next reset,
 * until the former one is set again. MIG_PENDING: it has noted it. */
must_check int mig_set_mode(const struct mig_nvml *nvml, const struct mig_gpu *gpu, bool on,
			    struct fault *why);

/* A part at that start, with one compute instance that is all of it. -ENOSPC: the driver has no
 * room there. */
must_check int mig_make(const struct mig_nvml *nvml, const struct mig_gpu *gpu, uint32_t profile,
			uint32_t start, struct fault *why);

/* MIG_IN_USE: it stays. */
must_check int mig_unmake(const struct mig_nvml *nvml, const struct mig_gpu *gpu,
			  const struct mig_part *part, struct fault *why);

/* A process that has a context on the part, or on the GPU if it is NULL; *ret_pid is 0: the driver
 * reports none. -EIO: the driver does not say. */
must_check int mig_user(const struct mig_nvml *nvml, const struct mig_gpu *gpu,
			const struct mig_part *part, unsigned *ret_pid);

static inline void mig_close_owned(struct mig_nvml **nvml)
{
	mig_close(*nvml);
}
