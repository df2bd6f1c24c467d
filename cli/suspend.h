/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `mete suspend` and `mete resume` do, also for `mete top`.
 */
#pragma once

#include <stdbool.h>

#include "cli/admin.h"

/* done->moves: bytes that leave or have left; done->value: bytes that stay, because they cannot
 * move. Errors as admin_ask(). */
must_check int suspend_ask(struct admin *admin, const char *who, bool suspends,
			   struct wire_done *ret_done, struct fault *why);
