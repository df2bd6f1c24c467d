/* SPDX-License-Identifier: Apache-2.0 */
#include "core/ledger/residual_price.h"

void residual_price_learn(struct residual_price *p, uint64_t tenant, uint64_t bytes)
{
	uint32_t place = 0;

	for (uint32_t i = 0; i < RESIDUAL_PRICE_TENANTS; i++) {
		if (p->sample[i].tenant == tenant) {
			place = i;
			break;
		}
		if (p->sample[i].when < p->sample[place].when)
			place = i;
	}
	p->sample[place].tenant = tenant;
	p->sample[place].bytes = bytes;
	p->sample[place].when = ++p->samples;
}

/* How many others reported less than `bytes`, or the same in an earlier place, so that ranks are
 * unique. */
static uint32_t rank_of(const struct residual_price *p, uint32_t place, uint64_t except)
{
	uint32_t rank = 0;

	for (uint32_t i = 0; i < RESIDUAL_PRICE_TENANTS; i++) {
		if (!p->sample[i].tenant || p->sample[i].tenant == except)
			continue;
		rank += p->sample[i].bytes < p->sample[place].bytes ||
			(p->sample[i].bytes == p->sample[place].bytes && i < place);
	}
	return rank;
}

uint64_t residual_price_of(const struct residual_price *p, uint64_t tenant, uint64_t least)
{
	uint64_t price = 0;
	uint32_t others = 0;

	for (uint32_t i = 0; i < RESIDUAL_PRICE_TENANTS; i++) {
		if (p->sample[i].tenant == tenant)
			return p->sample[i].bytes > least ? p->sample[i].bytes : least;
		others += p->sample[i].tenant != 0;
	}
	/* The lower median: of two the lesser. */
	for (uint32_t i = 0; i < RESIDUAL_PRICE_TENANTS && others >= 2; i++) {
		if (p->sample[i].tenant && rank_of(p, i, tenant) == (others - 1) / 2)
			price = p->sample[i].bytes;
	}
	return price > least ? price : least;
}
