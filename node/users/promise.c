/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guarantees of a device's tenants must not exceed the device. A request for more than is left
 * is refused, because otherwise the promises to others would be reduced. Guarantees that arrive in
 * another way (from the journal, or from a cluster, which does its own check) are reduced for all
 * alike, by core/turns.
 */
#include "node/users/promise.h"

#include "node/daemon.h"
#include "node/tenants/tenant_spec.h"

enum { PROMISE_ALL = 1000 };

static uint32_t promised_to_others(struct daemon *d, uint32_t device, const struct tenant *t)
{
	uint32_t sum = 0;

	list_for_each(link, &d->device[device].tenants)
	{
		const struct tenant *other = list_entry(link, struct tenant_device, link)->tenant;

		/* A nested tenant's guarantee is part of its outer tenant's. */
		if (other != t && !other->outer)
			sum += other->share.guarantee_milli;
	}
	return sum;
}

static int fits(struct daemon *d, uint32_t device, const struct tenant *t, uint32_t part,
		struct fault *why)
{
	uint32_t others = promised_to_others(d, device, t);
	uint32_t left = others < PROMISE_ALL ? PROMISE_ALL - others : 0;

	if (part <= left)
		return 0;
	return fault_set(
		why, -EPERM,
		"guarantee: %.1f%% beside the %.1f%% of the other tenants of %.44s is more "
		"than the device; accepted: at most %.1f%%",
		part / 10.0, others / 10.0, d->device[device].info->uuid_text, left / 10.0);
}

int promise_new(struct daemon *d, const struct tenant_spec *spec, struct fault *why)
{
	struct share share;
	int r = 0;

	if (tenant_spec_share(spec, &share) < 0)
		return 0; /* tenant_make() reports it */
	for (uint32_t i = 0; !spec->outer && share.guarantee_milli && i < spec->devices && r == 0;
	     i++)
		r = fits(d, spec->device[i], NULL, share.guarantee_milli, why);
	return r;
}

int promise_change(struct tenant *t, const struct share *share, struct fault *why)
{
	int r = 0;

	if (t->outer || share->guarantee_milli <= t->share.guarantee_milli)
		return 0;
	for (uint32_t i = 0; i < t->devices && r == 0; i++)
		r = fits(t->daemon, t->device[i].index, t, share->guarantee_milli, why);
	return r;
}
