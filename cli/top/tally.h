/* SPDX-License-Identifier: Apache-2.0 */
/* How tenants are counted: each once, on however many devices it is. Pure. */
#pragma once

#include "cli/top/page.h"

/* Worse ones come later. */
enum tally_state { TALLY_WELL, TALLY_SUSPENDED, TALLY_WAITS, TALLY_TROUBLE };

/* The worst that the tenant of row `first` does on the devices that the filter lets through.
 * `ret_next`: the first row of the next tenant. */
enum tally_state tally_tenant(const struct page *page, size_t first, size_t *ret_next);

bool tally_is_shown(const struct page *page, size_t row);

/* All of them, whatever the filter. */
size_t tally_tenants(const struct model *model);
