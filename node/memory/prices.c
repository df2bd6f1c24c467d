/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that a context takes, for each device model and driver version that guests have
 * had. */
#include "node/memory/prices.h"

#include <string.h>

#include "node/daemon.h"

static const char *model_of(const struct daemon *d, const struct guest_device *at)
{
	const struct tenant *t = at->guest->tenant;

	return d->device[t->device[at - at->guest->device].index].info->model;
}

static struct price *find(struct daemon *d, const struct guest_device *at)
{
	for (uint32_t i = 0; i < DAEMON_PRICES; i++) {
		struct price *p = &d->prices.row[i];

		if (p->model && p->driver_version == at->guest->driver_version &&
		    strcmp(p->model, model_of(d, at)) == 0)
			return p;
	}
	return NULL;
}

uint64_t prices_context(struct daemon *d, const struct guest_device *at)
{
	const struct price *p = find(d, at);
	uint64_t least = d->options.context_bytes;

	return p ? residual_price_of(&p->price, at->guest->tenant->id, least) : least;
}

uint64_t prices_least(const struct daemon *d, uint32_t device)
{
	uint64_t least = 0;

	for (uint32_t i = 0; i < DAEMON_PRICES; i++) {
		const struct price *p = &d->prices.row[i];
		uint64_t bytes;

		if (!p->model || strcmp(p->model, d->device[device].info->model) != 0)
			continue;
		/* The price for a tenant that has reported nothing yet. */
		bytes = residual_price_of(&p->price, (uint64_t)d->tenants.last_id + 1,
					  d->options.context_bytes);
		if (!least || bytes < least)
			least = bytes;
	}
	return least ? least : d->options.context_bytes;
}

/* The version is what a guest claims. If there are more versions than places, the oldest loses its
 * place, and guests with that version get the default price again. */
void prices_learn(struct daemon *d, const struct guest_device *at, uint64_t bytes)
{
	struct price *p = find(d, at);

	if (!p) {
		p = &d->prices.row[d->prices.next++ % DAEMON_PRICES];
		*p = (struct price){.model = model_of(d, at),
				    .driver_version = at->guest->driver_version};
	}
	residual_price_learn(&p->price, at->guest->tenant->id, bytes);
}
