/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The annotation by which mete's scheduler says which devices a container has:
 *
 *	{"containers": {"main": {"devices": ["GPU-..."]}}}
 *
 * Its other members are for other programs. Pure.
 */
#pragma once

#include "base/macros.h"

/* Called for each device in order; uuid NULL: not a string. A result other than 0 ends the
 * iteration. */
typedef int assigned_found(void *owner, const char *uuid);

/* -ENOENT: it names no devices for that container; or the result of `found`. */
must_check int assigned_read(const char *text, const char *container, assigned_found *found,
			     void *owner);
