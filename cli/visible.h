/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which devices a program sees: CUDA_VISIBLE_DEVICES, which the driver reads at cuInit().
 *
 * A program takes what it sees first for its own: under mete it must be the tenant's, or it meets a
 * device on which it may do nothing. Convenience, not protection: the guest refuses contexts on
 * other devices, whatever the variable says.
 */
#pragma once

#include "cli/admin.h"

/* What the caller's variable names (mete pick sets it), or "". */
const char *visible_asked(void);

/*
 * Sets the variable to the tenant's devices by UUID, in the order of `asked`: the devices that were
 * asked for by UUIDs and indices with commas between them; NULL: visible_asked(). Who hides all
 * devices (an empty list, -1) and asks for none still hides them.
 */
must_check int visible_show(const char *asked, struct admin *admin,
			    const struct wire_tenant_made *made, struct fault *why);
