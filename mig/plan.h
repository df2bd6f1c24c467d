/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                          mig/plan.h
 * Which parts of a GPU stay, which go, and where new ones lie, so that it has what is wanted. A
 * part that is wanted stays where it is if the others have room beside it; one that is in use goes
 * last. Pure.
 */
#pragma once

#include "mig/gpu.h"

struct mig_plan {
	bool stays[MIG_PARTS_MAX];
	uint32_t makes;
	struct {
		uint32_t profile, start;
	} make[MIG_PARTS_MAX];
};

/* The GPU's profile of that name; -1: it has none. */
int mig_find_profile(const struct mig_gpu *gpu, const char *name);

/* `used`: of each part. -ENOENT: the GPU has no such profile; -ENOSPC: they do not fit together;
 * each with a sentence. A GPU that is not in MIG mode does not say its places: then only names and
 * numbers are looked at. */
must_check int mig_plan(const struct mig_gpu *gpu, const struct mig_wish *wish,
			const bool used[MIG_PARTS_MAX], struct mig_plan *ret_plan,
			struct fault *why);
