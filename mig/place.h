/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                         mig/place.h
 * What a place is called in which a part is, or could be: "GPU-<uuid>:1g.10gb:4", for the profile
 * and the first slice of memory. Pure.
 */
#pragma once

#include "mig/gpu.h"

/* No name that mig_place_name() makes is longer, with its NUL. */
enum { MIG_PLACE_NAME_MAX = MIG_UUID_MAX + MIG_NAME_MAX + 16 };

struct mig_place_at {
	uint32_t gpu, profile, place;
};

/* -ENAMETOOLONG: it has more than size - 1 bytes. */
must_check int mig_place_name(const struct mig_gpu *gpu, uint32_t profile, uint32_t place,
			      char *ret_name, size_t size);

/* Does the text begin as a place's name does? It may be of no GPU that is there. */
bool mig_place_is_name(const char *name);

/* -ENOENT: none of these GPUs has such a place now: it is another one, not in MIG mode, or has no
 * such profile. */
must_check int mig_place_find(const struct mig_gpu *gpus, uint32_t count, const char *name,
			      struct mig_place_at *ret_at);
