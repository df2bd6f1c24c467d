/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few texts that the hook wants of a container's state and configuration, straight from the
 * JSON: no allocation, no tree. Pure.
 */
#pragma once

#include <stddef.h>

#include "base/macros.h"

enum { JSON_DEPTH_MAX = 64 };

/*
 * The string at `path`, a NULL-terminated list of member names: {"root", "path", NULL}. Of equal
 * names the first counts. -ENOENT: it is not there; -EINVAL: not JSON up to there, or no string;
 * -ENAMETOOLONG: it does not fit with its final NUL.
 */
must_check int json_string(const char *text, size_t size, const char *const path[], char *ret,
			   size_t room);

/* The same for the first string that begins with `prefix`, in the array at `path`; without the
 * prefix. Longer ones that do not fit: -ENAMETOOLONG. */
must_check int json_element(const char *text, size_t size, const char *const path[],
			    const char *prefix, char *ret, size_t room);
