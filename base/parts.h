/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the other parts of our installation relative to the running program, in the build folder or
 * as installed.
 */
#pragma once

#include <limits.h>

#include "base/fault.h"

/* Returns the first of `places` that exists, each relative to the folder of the running program
 * ("../lib/mete/x"). NULL ends the list. If none exists, the error names the last of them. Links
 * are resolved. -ENOENT. */
must_check int parts_find(const char *const places[], char ret_path[PATH_MAX], struct fault *why);
