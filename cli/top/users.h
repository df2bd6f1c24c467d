/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each user has of all devices together, as `mete top` shows it instead of the tenants. Pure.
 */
#pragma once

#include "cli/top/page.h"

/* Whoever had most of the devices' time first, from line `*first` on, which is kept within the
 * list; `lines` lines with the headings. */
void users_write(const struct page *page, size_t *first, unsigned lines);
