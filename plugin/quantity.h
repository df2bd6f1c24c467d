/* SPDX-License-Identifier: Apache-2.0 */
/* Quantities of the API server: it writes whole numbers in its own way, "4000" as "4k". Pure. */
#pragma once

#include "base/macros.h"

enum { QUANTITY_TEXT = 24 };

/* The number in digits alone. -EINVAL: it is not a whole number of at most 64 bits. */
must_check int quantity_plain(const char *quantity, char ret_text[QUANTITY_TEXT]);
