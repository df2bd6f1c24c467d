/* SPDX-License-Identifier: Apache-2.0 */
/* What a context takes, for each model of device and version of the driver that guests have seen.
 */
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
		struct price *p = &d->prices[i];

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

/* A version is what a guest says: more of them than there are places cost the oldest its place, and
 * those who have that one the price where nothing is known. */
void prices_learn(struct daemon *d, const struct guest_device *at, uint64_t bytes)
{
	struct price *p = find(d, at);

	if (!p) {
		p = &d->prices[d->next_price++ % DAEMON_PRICES];
		*p = (struct price){.model = model_of(d, at),
				    .driver_version = at->guest->driver_version};
	}
	residual_price_learn(&p->price, at->guest->tenant->id, bytes);
}
