/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `mete set` does, also for `mete top`.
 */
#pragma once

#include "cli/admin.h"

/* Changes fields of a tenant's share, each typed as KEY=VALUE: all of them or none. -EINVAL with a
 * sentence: a value that no meted accepts; others as admin_ask(). */
must_check int set_fields(struct admin *admin, const char *who, char *const *typed, int count,
			  struct fault *why);
