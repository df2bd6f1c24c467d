/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `mete suspend` and `mete resume` do, also for `mete top`.
 */
#pragma once

#include <stdbool.h>

#include "cli/admin.h"

/* Waits for at most wait_ns until all that can move has left. done->moves: bytes that leave or have
 * left; done->leaving: these of them that are not gone; done->value: bytes that stay, because they
 * cannot move. Errors as admin_ask(). */
must_check int suspend_ask(struct admin *admin, const char *who, bool suspends, uint64_t wait_ns,
			   struct wire_done *ret_done, struct fault *why);
