/* SPDX-License-Identifier: Apache-2.0 */
/* Quantities of the API server: it writes whole numbers in its own way, "4000" as "4k", and 20 GiB
 * as "20Gi". Pure. */
#pragma once

#include "base/macros.h"

enum { QUANTITY_TEXT = 24 };

/* -EINVAL: it is not a whole number of at most 64 bits. */
must_check int quantity_read(const char *quantity, uint64_t *ret_value);

/* The number in digits alone. Likewise. */
must_check int quantity_plain(const char *quantity, char ret_text[QUANTITY_TEXT]);
