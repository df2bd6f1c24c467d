/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                  sim/machine/mig.h
 * The parts into which MIG can divide a GPU, by its model (mig.def), and where a part has room.
 * Pure; the parts that exist are in parts.h.
 *
 * A GPU has eight slices of memory. A part takes some that lie side by side, from one of its
 * profile's starts; a set of slices is a mask, with bit 0 for the first.
 */
#pragma once

#include <stdint.h>

#include "base/macros.h"
#include "sim/machine/settings.h"

enum { MIG_PARTS = 7 }; /* of a GPU at most */

struct mig_profile {
	const char *model, *name; /* "H100", "1g.10gb" */
	uint32_t profile;	  /* NVML_GPU_INSTANCE_PROFILE_... */
	uint32_t id;		  /* the driver's */
	uint32_t slices;	  /* of computing */
	uint32_t places, step, size, most;
	uint32_t memory_mib, sms, copies, decoders, jpegs, ofas;
};

/* Row `number` of mig.def; NULL behind the last. */
const struct mig_profile *mig_row(uint32_t number);

/* The model's first row from `number` on; NULL: there is none. *ret_number: its number. */
const struct mig_profile *mig_next(const char *model, uint32_t number, uint32_t *ret_number);

/* The slices of a part that begins at `start`. */
uint32_t mig_mask(const struct mig_profile *row, uint32_t start);

/* Is it one of the row's starts? */
bool mig_is_start(const struct mig_profile *row, uint32_t start);

/* The first start that lies in no slice of the mask, or -1. */
int mig_start(const struct mig_profile *row, uint32_t taken);

/* The id of a GPU instance, from its place: parts that exist at the same time have different ids.
 */
uint32_t mig_instance(const struct mig_profile *row, uint32_t start);

/* A part of `gpu`, as the device that a program sees. */
void mig_shape(const struct mig_profile *row, const struct settings_device *gpu,
	       struct settings_device *ret_shape);

/* Reads METE_SIM_PARTS for the devices of the settings. -EINVAL with a sentence. */
must_check int mig_load(struct settings *settings, struct fault *why);
