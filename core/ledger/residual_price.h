/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Estimates what a tenant's next context takes, from contexts that were measured alone
 * (RESIDUAL_SAMPLE). One object per device model and driver version. Pure.
 *
 * Samples come from guests, which may lie about the number of their contexts or hold memory that is
 * not a context's. Therefore only a tenant's latest sample counts. A tenant's own sample applies to
 * itself. For other tenants, the price comes from the lower half of the samples of at least two
 * tenants.
 *
 * Laws, tested by tests/unit/test_residual_always.c:
 *  1. the price is never less than `least`, the estimate if nothing is known;
 *  2. no single tenant can raise a neighbour's price, whatever it reports and how often;
 *  3. the price can fall as well as rise: a tenant's new sample replaces its former one, and the
 *     oldest sample is dropped if there is no place.
 */
#pragma once

#include <stdint.h>

#include "base/macros.h"

enum { RESIDUAL_PRICE_TENANTS = 15 };

/* All zero: nothing is known. Private. */
struct residual_price {
	struct {
		uint64_t tenant; /* 0: none */
		uint64_t bytes;
		uint64_t when; /* counts samples */
	} sample[RESIDUAL_PRICE_TENANTS];
	uint64_t samples;
};

/* `tenant` is not 0. */
void residual_price_learn(struct residual_price *p, uint64_t tenant, uint64_t bytes);
must_check uint64_t residual_price_of(const struct residual_price *p, uint64_t tenant,
				      uint64_t least);
