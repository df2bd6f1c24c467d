/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                         mig/apply.h
 * Brings the GPUs to what a configuration says, or tells whether they are so. The last row that
 * speaks of a GPU counts for it, as if rows were applied one after the other.
 *
 * Before anything changes, all that can be known is looked at: profiles, room, and who uses what
 * would go. A part that is wanted and there stays, also under those who use it.
 */
#pragma once

#include "mig/nvml.h"

/* Those who have a GPU or a part without a process on it yet; and what else is told. */
struct mig_tenants {
	void *owner;
	/* Somebody who has the device with that UUID, or the place with that name (mig/place.h), in
	 * words ("tenant 'train'"); NULL: nobody. */
	const char *(*who)(void *owner, const char *uuid);
};

enum {
	MIG_DIFFERS = 1, /* with the sentence what does */
};

/* What a GPU is to be; NULL: no row speaks of it. */
const struct mig_wish *mig_wish_of(const struct mig_spec *spec, const struct mig_gpu *gpu);

/* MIG_DIFFERS: at least one GPU is not what the configuration says, or (unless `mode_only`) no row
 * speaks of it. */
must_check int mig_assert(const struct mig_nvml *nvml, const struct mig_spec *spec, bool mode_only,
			  struct fault *why);

/* -ENOENT, -ENOSPC: a GPU cannot be so. -EBUSY: somebody uses what would change: nothing has
 * changed, unless they came in between. -EAGAIN: a mode changes only when the GPU is reset. Each
 * with a sentence. `tenants` may be NULL. */
must_check int mig_apply(const struct mig_nvml *nvml, const struct mig_spec *spec, bool mode_only,
			 const struct mig_tenants *tenants, struct fault *why);
