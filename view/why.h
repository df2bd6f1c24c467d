/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a tenant waits for beyond ps_state(): which tenants have what it needs, and what helps.
 * `mete why`, `mete top` and the page show the same sentences.
 */
#pragma once

#include "view/ps_rows.h"

/* It cannot go on by itself at once. */
bool why_waits(const struct wire_tenant_row *tenant);

/* Calls say() with the sentence that comes first: which tenant it is, and what it does. */
void why_head(const struct ps_rows *rows, const struct wire_tenant_row *tenant,
	      void (*say)(void *owner, const char *sentence), void *owner);

/* Calls say() with each further sentence. A tenant that is not among the rows is not named. */
void why_say(const struct ps_rows *rows, const struct wire_tenant_row *tenant,
	     void (*say)(void *owner, const char *sentence), void *owner);
