/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the next context of a tenant is thought to take, from contexts that were measured alone
 * (RESIDUAL_SAMPLE). One per device model and driver version. Pure.
 *
 * Samples are told by guests that may lie about how many contexts they have, or hold memory that is
 * none: so a tenant's word counts once, its latest; for itself alone what it says of itself; and
 * for the others what the lower half of at least two tenants agrees upon.
 *
 * Laws, attacked by tests/unit/test_residual_always.c:
 *  1. the price is never less than `least`, which is what is expected where nothing is known;
 *  2. no single tenant raises a neighbour's price, whatever it says and how often;
 *  3. the price falls as well as rises: what was said last replaces what the tenant said before,
 *     and what is oldest goes when there is no place.
 */
#pragma once

#include <stdint.h>

#include "base/macros.h"

enum { RESIDUAL_PRICE_TENANTS = 15 };

/* All zero: nothing is known. Its own. */
struct residual_price {
	struct {
		uint64_t tenant; /* 0: none */
		uint64_t bytes;
		uint64_t when; /* counts samples */
	} said[RESIDUAL_PRICE_TENANTS];
	uint64_t samples;
};

/* `tenant` is not 0. */
void residual_price_learn(struct residual_price *p, uint64_t tenant, uint64_t bytes);
must_check uint64_t residual_price_of(const struct residual_price *p, uint64_t tenant,
				      uint64_t least);
