/* SPDX-License-Identifier: Apache-2.0 */
/* Applies the policy to a user's tenants. Each refusal names the text line of the policy that it
 * follows from. */
#include "node/users/terms.h"

#include <string.h>

#include "base/text.h"
#include "node/daemon.h"
#include "node/tenants/tenant_spec.h"
#include "node/users/policy.h"
#include "node/users/user.h"
#include "node/users/user_name.h"

static const struct policy_terms *terms_of(const struct user *u)
{
	return policy_of(u->daemon->users.policy, u->uid, u->groups, u->group_count);
}

/* Entries for groups may apply to this user. */
static bool may_be_in_a_group(const struct user *u)
{
	return !u->known && terms_of(u) == &u->daemon->users.policy->normally;
}

static const struct policy_value *together(const struct daemon *d, enum policy_key key)
{
	return &d->users.policy->normally.value[key];
}

/* The origin of a rule: "(/etc/mete/meted.yaml:4)". */
struct source {
	char text[160];
};

static struct source source(const struct daemon *d, uint32_t text_line)
{
	struct source ret;

	if (text_line)
		snprintf(ret.text, sizeof(ret.text), "(%.120s:%u)", user_policy_path(d), text_line);
	else
		snprintf(ret.text, sizeof(ret.text), "(%.120s may allow more)",
			 user_policy_path(d));
	return ret;
}

/* UINT64_MAX: no bound. */
static uint64_t bytes_of(const struct daemon *d, uint32_t device, const struct share_amount *amount)
{
	uint64_t total = d->device[device].info->total_bytes, bytes;

	if (!amount->bytes && !amount->milli)
		return UINT64_MAX;
	return share_bytes(amount, total, &bytes) == 0 ? bytes : total;
}

/* After a restart a user's groups are unknown until one of its processes connects. Until then the
 * user gets the least that any of its possible groups may have. */
static uint64_t sum_memory(const struct user *u, uint32_t device)
{
	const struct daemon *d = u->daemon;
	const struct policy_terms *terms = terms_of(u);
	uint64_t bytes = bytes_of(d, device, &terms->value[POLICY_sum_memory].amount);

	for (uint32_t i = 0; may_be_in_a_group(u) && i < d->users.policy->entries; i++) {
		const struct policy_entry *entry = &d->users.policy->entry[i];
		uint64_t other = bytes_of(d, device, &entry->terms.value[POLICY_sum_memory].amount);

		if (entry->group && other < bytes)
			bytes = other;
	}
	return bytes;
}

void terms_apply(struct user *u)
{
	struct daemon *d = u->daemon;

	for (uint32_t i = 0; i < d->devices; i++)
		ledger_set_limit(d->book.ledger, u->account[i], sum_memory(u, i), 0);
}

void terms_apply_all(struct daemon *d)
{
	const struct policy_value *all = together(d, POLICY_together_memory);

	for (uint32_t i = 0; i < d->devices; i++)
		ledger_set_limit(d->book.ledger, d->users.together[i], bytes_of(d, i, &all->amount),
				 0);
	list_for_each(link, &d->users.all) terms_apply(list_entry(link, struct user, link));
}

uint32_t user_sessions(const struct user *u)
{
	return USER_SESSIONS + terms_of(u)->value[POLICY_sum_tenants].number;
}

/* ---- a share --------------------------------------------------------------------------------- */

/* The requested share, and the current one. */
struct wanted {
	struct user *user;
	const struct tenant *tenant; /* whose share it is; NULL: a new one's */
	const struct share *before;  /* of that tenant */
	const struct share *share;
	uint32_t devices;
	const uint32_t *device;
};

struct sums {
	uint64_t weight, guarantee, guarantee_of_all;
};

/* Adds up the other tenants on the device. A nested tenant's share is part of its outer
 * tenant's. */
static struct sums sums_on(const struct wanted *wanted, uint32_t device)
{
	struct daemon *d = wanted->user->daemon;
	struct sums sums = {0};

	list_for_each(link, &d->device[device].tenants)
	{
		const struct tenant *t = list_entry(link, struct tenant_device, link)->tenant;

		if (t == wanted->tenant || t->outer || !t->user)
			continue;
		sums.guarantee_of_all += t->share.guarantee_milli;
		if (t->user != wanted->user)
			continue;
		sums.weight += t->share.weight;
		sums.guarantee += t->share.guarantee_milli;
	}
	return sums;
}

static int memory_allowed(const struct wanted *wanted, struct fault *why)
{
	struct daemon *d = wanted->user->daemon;
	const struct policy_value *most = &terms_of(wanted->user)->value[POLICY_tenant_memory];

	for (uint32_t i = 0; i < wanted->devices; i++) {
		uint32_t device = wanted->device[i];
		uint64_t bound = bytes_of(d, device, &most->amount), bytes, had = 0;

		if (share_bytes(&wanted->share->memory, d->device[device].info->total_bytes,
				&bytes) != 0)
			continue; /* reported elsewhere */
		if (wanted->before)
			had = bytes_of(d, device, &wanted->before->memory);
		if (bytes > bound && bytes > had)
			return fault_set(why, -EPERM,
					 "memory: %s is more than a tenant of user %s may have: "
					 "%s %s",
					 text_bytes_beside(bytes, bound).text,
					 user_name(wanted->user->uid).text,
					 text_bytes_beside(bound, bytes).text,
					 source(d, most->text_line).text);
	}
	return 0;
}

static int weight_allowed(const struct wanted *wanted, struct fault *why)
{
	const struct policy_terms *terms = terms_of(wanted->user);
	const struct policy_value *most = &terms->value[POLICY_tenant_weight];
	const struct policy_value *all = &terms->value[POLICY_sum_weight];
	struct daemon *d = wanted->user->daemon;
	uint32_t weight = wanted->share->weight;
	struct user_name name;

	if (wanted->before && weight <= wanted->before->weight)
		return 0;
	name = user_name(wanted->user->uid);
	if (weight > most->number)
		return fault_set(why, -EPERM,
				 "weight: %u is more than a tenant of user %s may have: %u %s",
				 weight, name.text, most->number, source(d, most->text_line).text);
	for (uint32_t i = 0; i < wanted->devices; i++) {
		uint64_t others = sums_on(wanted, wanted->device[i]).weight;

		if (others + weight > all->number)
			return fault_set(why, -EPERM,
					 "weight: %u plus the %llu of user %s's other tenants "
					 "is more than %u %s",
					 weight, (unsigned long long)others, name.text, all->number,
					 source(d, all->text_line).text);
	}
	return 0;
}

static int guarantee_refused(const struct wanted *wanted, const char *whose, uint64_t others,
			     const struct policy_value *most, struct fault *why)
{
	return fault_set(why, -EPERM,
			 "guarantee: %.1f%% plus the %.1f%% of %s is more than %.1f%% %s",
			 wanted->share->guarantee_milli / 10.0, (double)others / 10.0, whose,
			 most->number / 10.0, source(wanted->user->daemon, most->text_line).text);
}

static int guarantee_allowed(const struct wanted *wanted, struct fault *why)
{
	const struct policy_terms *terms = terms_of(wanted->user);
	const struct policy_value *most = &terms->value[POLICY_tenant_guarantee];
	const struct policy_value *own = &terms->value[POLICY_sum_guarantee];
	const struct policy_value *all = together(wanted->user->daemon, POLICY_together_guarantee);
	uint32_t part = wanted->share->guarantee_milli;

	if (!part || (wanted->before && part <= wanted->before->guarantee_milli))
		return 0;
	if (part > most->number)
		return fault_set(why, -EPERM,
				 "guarantee: %.1f%% is more than a tenant of user %s may have: "
				 "%.1f%% %s",
				 part / 10.0, user_name(wanted->user->uid).text,
				 most->number / 10.0,
				 source(wanted->user->daemon, most->text_line).text);
	for (uint32_t i = 0; i < wanted->devices; i++) {
		struct sums sums = sums_on(wanted, wanted->device[i]);

		if (own->text_line && sums.guarantee + part > own->number)
			return guarantee_refused(wanted, "the user's other tenants", sums.guarantee,
						 own, why);
		if (sums.guarantee_of_all + part > all->number)
			return guarantee_refused(wanted, "all users' tenants",
						 sums.guarantee_of_all, all, why);
	}
	return 0;
}

static const char *const class_names[] = {"interactive", "standard", "batch"};

static int class_allowed(const struct wanted *wanted, struct fault *why)
{
	const struct policy_value *best = &terms_of(wanted->user)->value[POLICY_tenant_class];

	if (wanted->share->class >= best->number ||
	    (wanted->before && wanted->share->class >= wanted->before->class))
		return 0;
	return fault_set(why, -EPERM, "class: user %s's tenants may not be %s, only %s %s",
			 user_name(wanted->user->uid).text, class_names[wanted->share->class],
			 best->number == SHARE_STANDARD ? "standard or batch" : "batch",
			 source(wanted->user->daemon, best->text_line).text);
}

static int allowed(const struct wanted *wanted, struct fault *why)
{
	int r = memory_allowed(wanted, why);

	if (r == 0)
		r = weight_allowed(wanted, why);
	if (r == 0)
		r = guarantee_allowed(wanted, why);
	return r == 0 ? class_allowed(wanted, why) : r;
}

/* ---- a new tenant ---------------------------------------------------------------------------- */

static bool speaks_of_groups(const struct policy *policy)
{
	for (uint32_t i = 0; i < policy->entries; i++)
		if (policy->entry[i].group)
			return true;
	return false;
}

static int may_have_anything(const struct user *u, struct fault *why)
{
	const struct policy_terms *terms = terms_of(u);
	const struct daemon *d = u->daemon;

	if (!d->users.policy_known)
		return fault_set(
			why, -EPERM,
			"this machine's policy cannot be read, so only root is served: %.300s",
			d->users.policy_fault);
	if (terms->none)
		return fault_set(why, -EPERM, "user %s has no share of this machine's GPUs %s",
				 user_name(u->uid).text, source(d, terms->text_line).text);
	if (may_be_in_a_group(u) && speaks_of_groups(d->users.policy))
		return fault_set(
			why, -EPERM,
			"user %s is in more than %d groups, the most that meted considers: "
			"the user needs an entry of their own in %.120s",
			user_name(u->uid).text, USER_GROUPS - 1, user_policy_path(d));
	return 0;
}

static int may_have_one_more(const struct user *u, struct fault *why)
{
	struct daemon *d = u->daemon;
	const struct policy_value *own = &terms_of(u)->value[POLICY_sum_tenants];
	const struct policy_value *all = together(d, POLICY_together_tenants);
	uint32_t others = 0;
	int r = may_have_anything(u, why);

	if (r < 0)
		return r;
	if (u->tenants >= own->number)
		return fault_set(why, -EPERM, "user %s has %u tenants, and may have no more %s",
				 user_name(u->uid).text, u->tenants,
				 source(d, own->text_line).text);
	list_for_each(link, &d->users.all) others += list_entry(link, struct user, link)->tenants;
	if (others >= all->number || others >= DAEMON_TENANTS_OF_USERS)
		return fault_set(why, -EPERM, "the users have %u tenants, and may have no more %s",
				 others, source(d, all->text_line).text);
	return 0;
}

static bool is_said(const struct tenant_spec *spec, const char *key)
{
	const char *text = spec->texts[share_index(key)];

	return text && *text;
}

static void amount_text(const struct share_amount *amount, char *text, size_t size)
{
	static const char units[] = "BKMGT";
	uint64_t number = amount->bytes;
	size_t unit = 0;

	if (amount->milli) {
		snprintf(text, size, "%u.%u%%", amount->milli / 10, amount->milli % 10);
		return;
	}
	/* Written as people do ("1G"), without losing a digit. */
	while (number && number % 1024 == 0 && units[unit + 1]) {
		number /= 1024;
		unit++;
	}
	snprintf(text, size, "%llu%c", (unsigned long long)number, units[unit]);
}

/* The weight of a tenant that named none: 100, or as much as the policy leaves. */
static uint64_t weight_left(const struct wanted *wanted, const struct policy_terms *terms)
{
	uint64_t weight = terms->value[POLICY_tenant_weight].number;
	uint64_t most = terms->value[POLICY_sum_weight].number;

	if (weight > 100)
		weight = 100;
	for (uint32_t i = 0; i < wanted->devices; i++) {
		uint64_t others = sums_on(wanted, wanted->device[i]).weight;

		if (others < most && most - others < weight)
			weight = most - others;
	}
	return weight;
}

/* Sets the fields that were not given to the usual share, or to as much of it as the policy
 * leaves. */
static void fill_in(const struct wanted *wanted, struct tenant_spec *spec, struct terms_texts *room)
{
	const struct policy_terms *terms = terms_of(wanted->user);
	const struct policy_value *memory = &terms->value[POLICY_tenant_memory];
	uint64_t weight = weight_left(wanted, terms);

	if (!is_said(spec, "memory") && (memory->amount.milli || memory->amount.bytes)) {
		amount_text(&memory->amount, room->memory, sizeof(room->memory));
		spec->texts[share_index("memory")] = room->memory;
	}
	if (!is_said(spec, "weight") && !is_said(spec, "mode") && weight < 100) {
		snprintf(room->weight, sizeof(room->weight), "%u", (unsigned)weight);
		spec->texts[share_index("weight")] = room->weight;
	}
	if (!is_said(spec, "class") && terms->value[POLICY_tenant_class].number == SHARE_BATCH)
		spec->texts[share_index("class")] = class_names[SHARE_BATCH];
}

int terms_admit(struct user *u, struct tenant_spec *spec, struct terms_texts *room,
		struct fault *why)
{
	struct share share;
	struct wanted wanted = {
		.user = u, .share = &share, .devices = spec->devices, .device = spec->device};
	int r = may_have_one_more(u, why);

	if (r < 0)
		return r;
	/* Its memory and time are parts of the outer tenant's. */
	if (spec->outer)
		return 0;
	fill_in(&wanted, spec, room);
	if (tenant_spec_share(spec, &share) < 0)
		return 0; /* tenant_make() reports it */
	return allowed(&wanted, why);
}

int terms_change(struct tenant *t, const struct share *share, struct fault *why)
{
	uint32_t device[WIRE_DEVICES];
	struct wanted wanted = {.user = t->user,
				.tenant = t,
				.before = &t->share,
				.share = share,
				.devices = t->devices,
				.device = device};

	for (uint32_t i = 0; i < t->devices; i++)
		device[i] = t->device[i].index;
	return !t->user || t->outer ? 0 : allowed(&wanted, why);
}

int terms_reserve(struct user *u, struct fault *why)
{
	const struct policy_value *most = &terms_of(u)->value[POLICY_sum_devices];
	struct daemon *d = u->daemon;
	uint32_t held = 0;
	int r = may_have_anything(u, why);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < d->devices; i++)
		held += reserve_holds(&d->reserve.device[i]) && d->reserve.device[i].uid == u->uid;
	if (held < most->number)
		return 0;
	return fault_set(why, -EPERM, "user %s holds %u device%s, and may hold no more %s",
			 user_name(u->uid).text, held, held == 1 ? "" : "s",
			 source(d, most->text_line).text);
}
