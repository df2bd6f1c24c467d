/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts of a share that a running tenant has refused, and why. It would refuse them again: they
 * are not tried at each event that leaves them as they are, which writes its record twice. For
 * in_force.c; it belongs to the owner of the tenant.
 */
#pragma once

#include <stdlib.h>

#include "base/macros.h"
#include "core/share/share.h"

/* All zero: nothing was refused. */
struct refusal {
	char *texts[SHARE_FIELDS]; /* NULL: default */
	char *sentence;		   /* NULL: nothing was refused */
};

static inline void refusal_forget(struct refusal *refusal)
{
	for (uint32_t i = 0; i < SHARE_FIELDS; i++)
		free(take(refusal->texts[i]));
	free(take(refusal->sentence));
}
