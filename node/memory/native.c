/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An event marks the control groups that it concerns (native_book.h), and soon afterwards their
 * limits are found anew and compared with what the driver was told: so only what differs is a call,
 * and a restarted meted sets what it finds. What a meted before us had set, and nobody wants any
 * more, ends with its group.
 */
#include "node/memory/native.h"

#include <string.h>

#include "base/file.h"
#include "base/process_look.h"
#include "base/text.h"
#include "node/memory/native_inside.h"
#include "node/memory/native_leaf.h"
#include "node/tenants/tenant_find.h"

enum { MOUNTS_MOST = 1048576 };

static const uint64_t AGAIN_NS = 1000000000, MIB = 1048576;

static struct tenant *outermost(struct tenant *t)
{
	while (t->outer)
		t = t->outer;
	return t;
}

void native_stir(struct native *n)
{
	if (!n->daemon->stopping)
		loop_arm(&n->timer, 0);
}

/* ---- who is in which group ------------------------------------------------------------------ */

void native_joined(struct guest *g)
{
	struct native *n = g->tenant->daemon->native;
	const struct tenant *pods = outermost(g->tenant);

	if (!n || !pods->pods || pods->observes)
		return;
	list_append(&n->unknown, &g->ungrouped);
	native_stir(n);
}

void native_left(struct guest *g)
{
	struct native *n = g->tenant->daemon->native;

	list_remove(&g->ungrouped);
	if (!n || !g->member)
		return;
	native_book_leave(&n->book, g->member);
	g->member = NULL;
	native_stir(n);
}

/* -EBUSY: whoever looks has to wait. */
static int find_group(struct native *n, struct guest *g)
{
	char path[LOOK_PATH], text[LOOK_MOST], group[NATIVE_PATH];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)g->pid);
	r = look_read(n->daemon->looks, g->pid, path, text);
	if (r == 0)
		r = native_leaf(n->mount, text, group);
	if (r < 0)
		return r;
	return native_book_join(&n->book, group, outermost(g->tenant)->id, &g->member);
}

/* False: some are to be looked for again. */
static bool find_groups(struct native *n)
{
	bool all = true;

	list_for_each(link, &n->unknown)
	{
		struct guest *g = list_entry(link, struct guest, ungrouped);
		int r = find_group(n, g);

		if (r == -EBUSY || r == -ENOMEM)
			all = false;
		else
			list_remove(&g->ungrouped);
	}
	return all;
}

/* ---- which limits they should have ---------------------------------------------------------- */

/* Whether the driver is to limit the tenant on that device. It cannot be on parts of MIG; managed
 * memory may be more than the device has; and where MPS runs tenants at once, its server may end
 * those that have more than is guaranteed to them. */
static bool is_limited(const struct tenant *t, const struct device *device, uint64_t limit)
{
	return device->info->gpu_instance < 0 && !device->info->gone && !t->share.oversize &&
	       !device->turns.at_once && limit < device->info->total_bytes;
}

/* Whole MiB, and never less than the guest grants. */
static uint64_t hard_limit(uint64_t limit)
{
	return (limit + MIB - 1) / MIB * MIB;
}

/* The limit without its part of what the device keeps for itself, so that all tenants' together are
 * no more than there is. If their limits do not fit in the device then nothing is guaranteed:
 * memory that mete grants to one tenant, because another does not use its own, must not be kept
 * for that one. Nor is it where a tenant has several groups, as each would have all of it. */
static uint64_t soft_limit(const struct device *device, bool fits, uint64_t limit)
{
	uint64_t total = device->info->total_bytes, reserve = device->reserve_bytes;

	if (!fits || reserve >= total || total < MIB)
		return 0;
	return limit / MIB * ((total - reserve) / MIB) / (total / MIB) * MIB;
}

static uint32_t gather(const struct native *n, const struct tenant *t,
		       struct native_want want[WIRE_DEVICES])
{
	bool alone = native_book_has_one(&n->book, t->id);
	uint32_t count = 0;

	for (uint32_t i = 0; n->on && i < t->devices; i++) {
		uint32_t index = t->device[i].index;
		const struct device *device = &n->daemon->device[index];
		struct ledger_sums sums;

		ledger_account_sums(t->device[i].account, &sums);
		if (is_limited(t, device, sums.limit))
			want[count++] = (struct native_want){
				index,
				{soft_limit(device, n->fits[index] && alone, sums.limit),
				 hard_limit(sums.limit)}};
	}
	return count;
}

/* False: without memory for it that has to be done again. */
static bool find_limits(struct native *n)
{
	struct native_group *group;

	while ((group = native_book_stale(&n->book)) != NULL) {
		struct native_want want[WIRE_DEVICES];
		const struct tenant *t = NULL;
		uint32_t id;

		if (native_group_owner(group, &id))
			t = tenant_find(n->daemon, id);
		if (native_book_want(&n->book, group, want, t ? gather(n, t, want) : 0) < 0)
			return false;
	}
	return true;
}

static void mark_device(struct native *n, uint32_t index)
{
	struct device *device = &n->daemon->device[index];

	list_for_each(link, &device->tenants)
	{
		struct tenant *t = list_entry(link, struct tenant_device, link)->tenant;

		native_book_changed(&n->book, outermost(t)->id);
	}
}

/* Tenants come and go, and their limits change: only where that changes whether all fit is it a
 * matter of the other tenants there. */
static void compare_promises(struct native *n)
{
	for (uint32_t i = 0; i < n->daemon->devices; i++) {
		const struct device *device = &n->daemon->device[i];
		bool fits = device->promised_bytes <= device->info->total_bytes;

		if (fits == n->fits[i])
			continue;
		n->fits[i] = fits;
		mark_device(n, i);
	}
}

/* ---- events --------------------------------------------------------------------------------- */

static void on_due(struct loop_timer *timer)
{
	struct native *n = container_of(timer, struct native, timer);
	bool all;

	/* It is called again when the worker has ended. */
	if (n->work.busy) {
		n->stirred = true;
		return;
	}
	compare_promises(n);
	all = find_groups(n);
	all &= find_limits(n);
	all &= native_tell(n);
	if (!all)
		loop_arm(&n->timer, AGAIN_NS);
}

void native_tenant(struct tenant *t)
{
	struct native *n = t->daemon->native;

	if (!n)
		return;
	native_book_changed(&n->book, outermost(t)->id);
	native_stir(n);
}

void native_device(struct daemon *d, uint32_t index)
{
	if (!d->native)
		return;
	mark_device(d->native, index);
	native_stir(d->native);
}

void native_switch(struct daemon *d, bool on)
{
	if (!d->native || d->native->on == on)
		return;
	d->native->on = on;
	for (uint32_t i = 0; i < d->devices; i++)
		mark_device(d->native, i);
	native_stir(d->native);
}

static const char *unsupported(struct daemon *d, char ret_mount[NATIVE_PATH])
{
	owned(free) char *mounts = NULL;
	size_t size;

	if (file_slurp("/proc/self/mountinfo", MOUNTS_MOST, &mounts, &size) < 0 ||
	    native_mount(mounts, ret_mount) < 0)
		return "this machine has no control groups of version 2";
	return nvml_has_limits(d->nvml, ret_mount)
		       ? NULL
		       : "the driver, or its GPUs, cannot limit the memory of control groups (615 "
			 "or newer can)";
}

int native_open(struct daemon *d)
{
	char mount[NATIVE_PATH];
	const char *why;
	struct native *n;
	int r;

	if (!d->options.kubernetes || d->options.no_native_limits)
		return 0;
	why = unsupported(d, mount);
	if (why) {
		log_info("limits.unsupported", "reason=\"%s: only the guest limits memory\"", why);
		return 0;
	}
	n = calloc(1, sizeof(*n));
	if (!n)
		return -ENOMEM;
	n->daemon = d;
	native_book_init(&n->book);
	list_init(&n->unknown);
	for (uint32_t i = 0; i < DAEMON_DEVICES; i++)
		n->fits[i] = true;
	memcpy(n->mount, mount, sizeof(mount));
	r = loop_timer_init(&d->loop, &n->timer, on_due);
	if (r < 0) {
		free(n);
		return r;
	}
	d->native = n;
	return 0;
}

void native_close(struct daemon *d)
{
	if (d->native)
		loop_timer_close(&d->native->timer, NULL);
}

void native_free(struct daemon *d)
{
	if (!d->native)
		return;
	native_book_free(&d->native->book);
	free(d->native->step);
	free(d->native);
	d->native = NULL;
}
