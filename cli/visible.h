/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices that a program sees: CUDA_VISIBLE_DEVICES, which the driver reads at cuInit().
 *
 * A program usually takes the first device that it sees: under mete that must be the tenant's, as
 * every other device refuses it. This is convenience, not protection: the guest refuses contexts on
 * other devices, whatever the variable says.
 */
#pragma once

#include "cli/admin.h"

/* The value of the caller's variable (mete pick sets it), or "". */
const char *visible_asked(void);

/*
 * Sets the variable to the tenant's devices by UUID, in the order of `asked`: a list of UUIDs and
 * indices with commas between them; NULL: visible_asked(). If the caller hides all devices (an
 * empty list, -1) and asks for none, they stay hidden.
 */
must_check int visible_show(const char *asked, struct admin *admin,
			    const struct wire_tenant_made *made, struct fault *why);
