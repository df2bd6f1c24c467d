/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `mete run` inside a program that `mete run` started: its share is part of the outer tenant's.
 *
 * If it asks for less memory than the outer tenant has, it becomes a tenant within it: its memory
 * is charged to both, and the outer tenant's time is divided equally between it and the tenants
 * within it. Otherwise it joins the outer tenant. Decision 89.
 */
#include "node/tenants/nested.h"

#include <string.h>

#include "node/daemon.h"
#include "node/process.h"
#include "node/tenants/keeper.h"
#include "node/tenants/share_text.h"
#include "node/time/owed.h"
#include "node/time/schedule.h"
#include "node/upcalls.h"

enum { ANCESTORS = 64 };

static struct tenant *by_socket(struct daemon *d, const char *socket)
{
	list_for_each(link, &d->tenants.all)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		if (strcmp(t->socket, socket) == 0)
			return t;
	}
	return NULL;
}

/*
 * Reads the caller and its ancestors, the nearest first. Pids are reused, so each link must be
 * confirmed: a pid is still the parent that was read if its child lives and still has it as its
 * parent. Therefore the second pass starts at the farthest ancestor, and the caller's own pidfd is
 * checked last.
 */
static uint32_t read_ancestors(struct looks *looks, pid_t caller, uint64_t started,
			       pid_t ancestors[ANCESTORS])
{
	owned(close) int pidfd = -1;
	uint32_t count = 0;

	if (!started || process_open(looks, caller, started, &pidfd) < 0)
		return 0;
	while (caller > 1 && count < ANCESTORS) {
		ancestors[count++] = caller;
		caller = process_parent(looks, caller);
	}
	for (uint32_t i = count; i-- > 1;)
		if (process_parent(looks, ancestors[i - 1]) != ancestors[i])
			count = i;
	return process_ended(pidfd) ? 0 : count;
}

/* Finds the tenant whose program is the caller's nearest ancestor, because the
 * environment may have been emptied. */
static struct tenant *by_ancestors(struct daemon *d, pid_t caller, uint64_t started)
{
	struct tenant *nearest = NULL;
	pid_t ancestors[ANCESTORS];
	uint32_t place = read_ancestors(d->looks, caller, started, ancestors);

	list_for_each(link, &d->tenants.all)
	{
		struct tenant *t = list_entry(link, struct tenant, link);
		uint32_t at = keeper_place(t, ancestors, place);

		if (at < place) {
			place = at;
			nearest = t;
		}
		if (!place)
			break;
	}
	return nearest;
}

struct tenant *nested_find(struct daemon *d, const char *socket, pid_t caller, uint64_t started)
{
	struct tenant *t = *socket ? by_socket(d, socket) : NULL;

	if (t || list_empty(&d->tenants.all))
		return t;
	return by_ancestors(d, caller, started);
}

static uint32_t part_of(uint32_t value, uint32_t parts, uint32_t least)
{
	return value / parts > least ? value / parts : least;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/* The share of the tenant together with the tenants within it; its weight is in hundredths. */
static void whole_share(const struct tenant *t, struct share *ret_share)
{
	struct share outer;

	*ret_share = t->share;
	ret_share->weight *= NESTED_WEIGHT;
	if (!t->outer)
		return;
	nested_share(t->outer, &outer);
	ret_share->weight = smaller(ret_share->weight, outer.weight);
	ret_share->cap_milli = smaller(t->share.cap_milli, outer.cap_milli);
	ret_share->guarantee_milli = smaller(t->share.guarantee_milli, outer.guarantee_milli);
	ret_share->guarantee_milli = smaller(ret_share->guarantee_milli, ret_share->cap_milli);
	ret_share->equal |= outer.equal;
	if (ret_share->class < outer.class)
		ret_share->class = outer.class;
}

void nested_share(const struct tenant *t, struct share *ret_share)
{
	uint32_t parts = t->nested + 1;

	whole_share(t, ret_share);
	ret_share->weight = part_of(ret_share->weight, parts, 1);
	ret_share->cap_milli = part_of(ret_share->cap_milli, parts, 1);
	ret_share->guarantee_milli = part_of(ret_share->guarantee_milli, parts, 0);
}

/* ---- sentences for people -------------------------------------------------------------------- */

static bool is_said(const struct tenant *t, const char *key)
{
	for (const struct share_text *at = t->texts; at; at = at->next)
		if (strcmp(share_key(at->field), key) == 0 ||
		    share_includes(share_key(at->field), key))
			return true;
	return false;
}

struct field_text {
	char text[24];
};

/* Of hundredths: "3", or "0.33". */
static struct field_text weight_text(uint32_t weight)
{
	struct field_text ret;
	uint32_t rest = weight % NESTED_WEIGHT;

	if (rest)
		snprintf(ret.text, sizeof(ret.text), "%u.%02u", weight / NESTED_WEIGHT, rest);
	else
		snprintf(ret.text, sizeof(ret.text), "%u", weight / NESTED_WEIGHT);
	return ret;
}

/* The share's weight is in hundredths. */
static struct field_text field_text(const struct share *share, const char *key)
{
	static const char *const classes[] = {"interactive", "standard", "batch"};
	struct field_text ret;

	if (strcmp(key, "weight") == 0)
		return weight_text(share->weight);
	else if (strcmp(key, "class") == 0)
		snprintf(ret.text, sizeof(ret.text), "%s", classes[share->class]);
	else
		snprintf(ret.text, sizeof(ret.text), "%.1f%%",
			 (strcmp(key, "cap") == 0 ? share->cap_milli : share->guarantee_milli) /
				 10.0);
	return ret;
}

void nested_note(const struct tenant *t, char *ret_note, size_t size)
{
	static const char *const keys[] = {"weight", "guarantee", "cap", "class"};
	struct share has, wants = t->share;
	char less[128];
	size_t n = 0;

	*ret_note = '\0';
	whole_share(t, &has);
	wants.weight *= NESTED_WEIGHT;
	for (size_t i = 0; t->outer && i < ARRAY_SIZE(keys); i++) {
		struct field_text wanted = field_text(&wants, keys[i]);
		struct field_text given = field_text(&has, keys[i]);

		if (!is_said(t, keys[i]) || strcmp(wanted.text, given.text) == 0)
			continue;
		n += (size_t)snprintf(less + n, sizeof(less) - n, "%s %s %s, not %s", n ? ";" : "",
				      keys[i], given.text, wanted.text);
	}
	if (n)
		snprintf(ret_note, size,
			 "this has a part of the share of tenant %u (%.40s), and no more:%s",
			 t->outer->id, t->outer->name, less);
}

static bool is_within(const struct tenant *t, const struct tenant *outer)
{
	while (t && t != outer)
		t = t->outer;
	return t != NULL;
}

static const struct tenant *outermost_of(const struct tenant *t)
{
	while (t->outer)
		t = t->outer;
	return t;
}

/* Finds one whose cap gives less than 0.1 % to each of its parts: those would have more than the
 * cap together, as turns know nothing smaller. */
static const struct tenant *too_divided(const struct tenant *outermost)
{
	list_for_each(link, (struct list *)&outermost->daemon->tenants.all)
	{
		const struct tenant *t = list_entry(link, struct tenant, link);
		struct share whole;

		if (!is_within(t, outermost))
			continue;
		whole_share(t, &whole);
		if (whole.cap_milli < t->nested + 1)
			return t;
	}
	return NULL;
}

static int admit_parts(struct tenant *outer, struct fault *why)
{
	const struct tenant *small = too_divided(outermost_of(outer));
	struct share whole;

	if (small)
		return 0; /* it was so before: a journal of a former version */
	outer->nested++;
	small = too_divided(outermost_of(outer));
	if (small)
		whole_share(small, &whole);
	outer->nested--;
	if (!small)
		return 0;
	return fault_set(why, -EPERM,
			 "tenant %u (%.40s) would have a cap of %.1f%% for %u parts, and 0.1%% "
			 "each is the least; accepted: a larger cap, or no --memory: then this "
			 "program has the outer tenant's share",
			 small->id, small->name, whole.cap_milli / 10.0,
			 small->nested + (small == outer) + 1);
}

int nested_admit(struct tenant *outer, struct fault *why)
{
	const struct tenant *outermost = outermost_of(outer);
	uint32_t within = 0;

	list_for_each(link, &outer->daemon->tenants.all)
	{
		const struct tenant *t = list_entry(link, struct tenant, link);

		within += t != outermost && is_within(t, outermost);
	}
	if (within < DAEMON_TENANTS_WITHIN)
		return admit_parts(outer, why);
	return fault_set(why, -EPERM,
			 "tenant %u (%.60s) has %u tenants within it, and may have no more: "
			 "without --memory this program has that tenant's share",
			 outermost->id, outermost->name, within);
}

static bool cap_divides(struct tenant *t, uint32_t milli)
{
	uint32_t before = t->share.cap_milli;
	bool divides;

	t->share.cap_milli = milli;
	divides = !too_divided(outermost_of(t));
	t->share.cap_milli = before;
	return divides;
}

int nested_admit_cap(struct tenant *t, const struct share *share, struct fault *why)
{
	uint32_t low = share->cap_milli, high = t->share.cap_milli;

	if (low >= high || cap_divides(t, low) || !cap_divides(t, high))
		return 0;
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (cap_divides(t, middle))
			high = middle;
		else
			low = middle;
	}
	return fault_set(why, -EINVAL,
			 "cap: %.1f%% cannot be divided with the tenants within tenant %u "
			 "(%.40s), as 0.1%% each is the least; accepted: at least %.1f%%",
			 share->cap_milli / 10.0, t->id, t->name, high / 10.0);
}

void nested_changed(struct tenant *outer)
{
	list_for_each(link, &outer->daemon->tenants.all)
	{
		struct tenant *t = list_entry(link, struct tenant, link);

		if (is_within(t, outer))
			schedule_set(t);
	}
}

static struct tenant_device *find_device(const struct tenant *t, uint32_t index)
{
	for (uint32_t i = 0; i < t->devices; i++)
		if (t->device[i].index == index)
			return (struct tenant_device *)&t->device[i];
	return NULL;
}

struct ledger_account *nested_account(const struct tenant *outer, uint32_t index)
{
	const struct tenant_device *at = find_device(outer, index);

	return at ? at->account : NULL;
}

/* Each of its parts pays by a part of its cap: so they owe together what it owed. */
static void share_debts(struct tenant *t)
{
	for (uint32_t i = 0; i < t->devices; i++) {
		struct tenant_device *at = find_device(t->outer, t->device[i].index);

		if (at)
			owed_pass_on(at, &t->device[i], t->outer->nested + 1);
	}
}

/* Otherwise a tenant could have others within it, one after the other, that owe and end. */
static void leave_debts(struct tenant *t, struct tenant *outer)
{
	for (uint32_t i = 0; i < t->devices; i++) {
		struct tenant_device *at = find_device(outer, t->device[i].index);

		if (at)
			owed_pass_on(&t->device[i], at, 1);
	}
}

void nested_join(struct tenant *t)
{
	t->outer->nested++;
	share_debts(t);
	nested_changed(t->outer);
}

void nested_lift(struct tenant *t)
{
	/* Happens only if the tenant is ended by force: otherwise it stays
	 * until those within it end. */
	list_for_each(link, &t->daemon->tenants.all)
	{
		struct tenant *other = list_entry(link, struct tenant, link);

		if (other->outer != t)
			continue;
		for (uint32_t i = 0; i < other->devices; i++) {
			struct ledger_sums sums;

			ledger_lift(other->device[i].account);
			ledger_account_sums(other->device[i].account, &sums);
			/* Until now this was part of what the outer tenant was promised. */
			if (!t->outer)
				t->daemon->device[other->device[i].index].promised_bytes +=
					sums.limit;
		}
		other->outer = t->outer;
		t->nested--;
		if (t->outer)
			t->outer->nested++;
	}
}

void nested_leave(struct tenant *t)
{
	struct tenant *outer = take(t->outer);

	if (!outer)
		return;
	leave_debts(t, outer);
	outer->nested--;
	nested_changed(outer);
	tenant_maybe_end(outer);
}
