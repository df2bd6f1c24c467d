/* SPDX-License-Identifier: Apache-2.0 */
#include "node/tenants/change.h"

#include <string.h>

#include "base/text.h"
#include "node/daemon.h"
#include "node/devices/nvml.h"
#include "node/events.h"
#include "node/memory/book.h"
#include "node/memory/native.h"
#include "node/memory/prices.h"
#include "node/state/recorder.h"
#include "node/tenants/nested.h"
#include "node/tenants/share_text.h"
#include "node/tenants/tenant_show.h"
#include "node/users/terms.h"

static int unknown_field(const char *key, struct fault *why)
{
	char known[200];

	share_keys(known, sizeof(known));
	return fault_set(why, -EINVAL, "'%.60s' is not a field of a share; accepted: %s", key,
			 known);
}

int change_field(struct share *share, const struct change *one, struct fault *why)
{
	int r = share_set(share, one->key, one->value);

	if (r == 0)
		return 0;
	if (r == SHARE_KEY)
		return unknown_field(one->key, why);
	return fault_set(why, -EINVAL, "%s: '%.60s' %s; accepted: %s", one->key, one->value,
			 share_problem(r), share_accepts(one->key));
}

int change_limit(struct daemon *d, const struct share *share, uint32_t index, const char *text,
		 uint64_t *ret_bytes, struct fault *why)
{
	const struct nvml_device *info = d->device[index].info;
	int r = share_bytes(&share->memory, info->total_bytes, ret_bytes);

	if (r == 0)
		return 0;
	/* The sentence must fit WIRE_TEXT_MAX bytes, or its end, what is accepted, is lost. */
	return fault_set(why, -EINVAL, "memory: '%.20s' %s: %.40s has %s; accepted: %s",
			 text ? text : "", share_problem(r), info->uuid_text,
			 text_bytes(info->total_bytes).text, share_accepts("memory"));
}

int change_holds_context(struct daemon *d, uint32_t index, uint64_t limit, struct fault *why)
{
	uint64_t least = prices_least(d, index);

	if (limit >= least)
		return 0;
	return fault_set(why, -EINVAL,
			 "memory: %s cannot hold one context, which takes %s on %.40s; accepted: "
			 "at least that",
			 text_bytes_beside(limit, least).text, text_bytes_beside(least, limit).text,
			 d->device[index].info->uuid_text);
}

int change_oversize(const struct tenant *t, const struct share *share, uint32_t index,
		    uint64_t limit, struct fault *why)
{
	struct daemon *d = t->daemon;
	uint64_t all = d->device[index].info->total_bytes;
	struct ledger_sums user = {.limit = all};

	if (!share->oversize)
		return 0;
	if (t->user && t->user->account[index])
		ledger_account_sums(t->user->account[index], &user);
	if (limit >= all && user.limit >= all)
		return 0;
	return fault_set(
		why, -EINVAL,
		"oversize: managed memory cannot be kept within %s of %s: the driver decides "
		"how much of it is on the device; accepted: refuse, or memory=100%%%s",
		text_bytes(limit < user.limit ? limit : user.limit).text, text_bytes(all).text,
		user.limit < all ? ", which the policy does not allow" : "");
}

static const struct change *find(const struct change *changes, uint32_t count, const char *key)
{
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(changes[i].key, key) == 0)
			return &changes[i];
	return NULL;
}

/* Each is a field, and none is there twice: which of two would count? */
static int check_keys(const struct change *changes, uint32_t count, struct fault *why)
{
	for (uint32_t i = 0; i < count; i++) {
		if (!share_accepts(changes[i].key))
			return unknown_field(changes[i].key, why);
		if (find(changes, i, changes[i].key))
			return fault_set(why, -EINVAL, "'%.60s' is given twice", changes[i].key);
	}
	return 0;
}

int change_share(const struct tenant *t, const struct change *changes, uint32_t count,
		 struct share *ret_share, struct fault *why)
{
	bool done[SHARE_FIELDS] = {false};
	struct share share = t->share;
	uint32_t left = count, before;
	int r = check_keys(changes, count, why);

	if (r < 0)
		return r;
	do {
		before = left;
		for (uint32_t i = 0; i < SHARE_FIELDS; i++) {
			const struct change *one = find(changes, count, share_key(i));

			if (!one || done[i])
				continue;
			done[i] = change_field(&share, one, why) == 0;
			left -= done[i];
		}
	} while (left && left < before);
	if (left)
		return -EINVAL;
	*ret_share = share;
	return 0;
}

/* The limits that the share has on the tenant's devices, if they are acceptable. */
static int limits_of(const struct tenant *t, const struct share *share, const struct change *memory,
		     uint64_t *ret_limits, struct fault *why)
{
	struct daemon *d = t->daemon;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < t->devices; i++) {
		r = change_limit(d, share, t->device[i].index, memory ? memory->value : NULL,
				 &ret_limits[i], why);
		if (r == 0 && memory)
			r = change_holds_context(d, t->device[i].index, ret_limits[i], why);
		if (r == 0)
			r = change_oversize(t, share, t->device[i].index, ret_limits[i], why);
	}
	return r;
}

/* As it is written once the changes are made; NULL: the default. A field that includes others takes
 * back what they were set to before. */
static const char *text_after(const struct tenant *t, const struct change *changes, uint32_t count,
			      uint32_t field)
{
	const struct change *one = find(changes, count, share_key(field));

	for (uint32_t i = 0; i < count && !one; i++)
		if (share_includes(changes[i].key, share_key(field)))
			return NULL;
	return one ? one->value : share_text_of(t->texts, field);
}

/* The fields as they were written, which the journal and `mete ps` have. Cannot fail halfway. */
static int put_texts(struct tenant *t, const struct change *changes, uint32_t count,
		     struct fault *why)
{
	struct share_text *made = NULL;

	for (uint32_t i = 0; i < SHARE_FIELDS; i++) {
		const char *text = text_after(t, changes, count, i);

		if (text && share_text_add(&made, i, text) < 0) {
			share_texts_free(made);
			return fault_set(why, -ENOMEM, "out of memory");
		}
	}
	share_texts_free(t->texts);
	t->texts = made;
	return 0;
}

static void put_limits(struct tenant *t, const uint64_t *limits)
{
	struct daemon *d = t->daemon;

	for (uint32_t i = 0; i < t->devices; i++) {
		struct ledger_sums sums;

		ledger_account_sums(t->device[i].account, &sums);
		if (!t->outer)
			d->device[t->device[i].index].promised_bytes += limits[i] - sums.limit;
		ledger_set_limit(d->book.ledger, t->device[i].account, limits[i], t->share.wait_ns);
	}
}

int change_tenant(struct tenant *t, const struct user *who, const struct change *changes,
		  uint32_t count, struct fault *why)
{
	uint64_t limits[WIRE_DEVICES] = {0};
	struct share share;
	int r = change_share(t, changes, count, &share, why);

	if (r == 0)
		r = limits_of(t, &share, find(changes, count, "memory"), limits, why);
	if (r == 0 && who)
		r = terms_change(t, &share, why);
	if (r == 0)
		r = nested_admit_cap(t, &share, why);
	if (r == 0)
		r = put_texts(t, changes, count, why);
	if (r < 0)
		return r;
	t->share = share;
	put_limits(t, limits);
	for (uint32_t i = 0; i < count; i++) {
		log_info("tenant.set", "tenant=%u key=%s value=%s", t->id, changes[i].key,
			 log_text(changes[i].value).text);
		events_tenant(t, HAPPENED_SET, "its share was changed: %s=%s", changes[i].key,
			      changes[i].value);
	}
	recorder_tenant(t);
	tenant_show_share(t);
	native_tenant(t);
	book_pump(t->daemon);
	nested_changed(t);
	return 0;
}
