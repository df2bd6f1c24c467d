/* SPDX-License-Identifier: Apache-2.0 */
/* A device that takes no new tenants, for `mete cordon`, `mete uncordon` and `mete drain`. */
#pragma once

#include "cli/admin.h"
#include "cli/cli.h"

/* As admin_connect_for(), for a verb on a device. */
must_check int cordon_connect(struct admin *admin, const char *device, struct fault *why);

/* `device` as a person names it; `ret_index`: the device's index, as meted has understood it. */
must_check int cordon_send(struct admin *admin, const char *device, bool cordoned,
			   uint32_t *ret_index, struct fault *why);
