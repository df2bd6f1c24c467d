/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ledger/residual_price.h"

void residual_price_learn(struct residual_price *p, uint64_t tenant, uint64_t bytes)
{
	uint32_t place = 0;

	for (uint32_t i = 0; i < RESIDUAL_PRICE_TENANTS; i++) {
		if (p->said[i].tenant == tenant) {
			place = i;
			break;
		}
		if (p->said[i].when < p->said[place].when)
			place = i;
	}
	p->said[place].tenant = tenant;
	p->said[place].bytes = bytes;
	p->said[place].when = ++p->samples;
}

/* How many others reported less than `bytes`, or the same in an earlier place, so that ranks are
 * unique. */
static uint32_t rank_of(const struct residual_price *p, uint32_t place, uint64_t except)
{
	uint32_t rank = 0;

	for (uint32_t i = 0; i < RESIDUAL_PRICE_TENANTS; i++) {
		if (!p->said[i].tenant || p->said[i].tenant == except)
			continue;
		rank += p->said[i].bytes < p->said[place].bytes ||
			(p->said[i].bytes == p->said[place].bytes && i < place);
	}
	return rank;
}

uint64_t residual_price_of(const struct residual_price *p, uint64_t tenant, uint64_t least)
{
	uint64_t price = 0;
	uint32_t others = 0;

	for (uint32_t i = 0; i < RESIDUAL_PRICE_TENANTS; i++) {
		if (p->said[i].tenant == tenant)
			return p->said[i].bytes > least ? p->said[i].bytes : least;
		others += p->said[i].tenant != 0;
	}
	/* The lower median: of two the lesser. */
	for (uint32_t i = 0; i < RESIDUAL_PRICE_TENANTS && others >= 2; i++) {
		if (p->said[i].tenant && rank_of(p, i, tenant) == (others - 1) / 2)
			price = p->said[i].bytes;
	}
	return price > least ? price : least;
}
