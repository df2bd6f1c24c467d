/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of meted that are libraries of their own, loaded when they are wanted. */
#pragma once

#include "base/fault.h"

/* `places`: as of parts_find(). Returns the library's object `symbol`, which begins with a version
 * as an uint32_t: another one is -ELIBBAD. */
must_check int library_load(const char *const places[], const char *symbol, uint32_t version,
			    const void **ret_entry, struct fault *why);
