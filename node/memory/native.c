/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After each event all that is wanted is gathered anew, and compared with what the driver was told:
 * so a missed event costs nothing for long, and a restarted meted sets what it finds. What a meted
 * before us had set, and nobody wants any more, ends with its group.
 */
#include "node/memory/native.h"

#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "node/memory/native_book.h"
#include "node/memory/native_leaf.h"
#include "node/process_look.h"

enum { MOUNTS_MOST = 1048576 };

static const uint64_t AGAIN_NS = 1000000000;

struct step {
	uint32_t row;
	int result;
};

struct native {
	struct daemon *daemon;
	struct loop_timer timer;
	struct loop_work work;
	struct native_book book; /* the worker reads it */
	struct step *step;	 /* owned: calls that the worker makes */
	uint32_t steps;
	bool stirred;  /* while the worker was at work */
	int warned[8]; /* results of which the log has a line */
	char mount[NATIVE_PATH];
};

static const struct tenant *outermost(const struct tenant *t)
{
	while (t->outer)
		t = t->outer;
	return t;
}

/* Asks for the guest's group once. False: whoever looks has to wait. */
static bool know_group(const struct native *n, struct guest *g)
{
	char path[LOOK_PATH], text[LOOK_MOST], group[NATIVE_PATH];
	int r;

	if (g->group_known)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)g->pid);
	r = look_read(n->daemon->looks, g->pid, path, text);
	if (r == -EBUSY)
		return false;
	g->group_known = true;
	if (r == 0 && native_leaf(n->mount, text, group) == 0)
		g->group = strdup(group);
	return true;
}

/* Whether the driver is to limit the tenant on that device. It cannot be on parts of MIG; managed
 * memory may be more than the device has; and where MPS runs tenants at once, its server may end
 * those that have more than is guaranteed to them. */
static bool is_limited(const struct tenant *t, uint32_t at, uint64_t *ret_bytes)
{
	const struct device *device = &t->daemon->device[t->device[at].index];
	struct ledger_sums sums;

	ledger_account_sums(t->device[at].account, &sums);
	*ret_bytes = sums.limit;
	return device->info->gpu_instance < 0 && !device->info->gone && !t->share.oversize &&
	       !device->turns.at_once && sums.limit < device->info->total_bytes;
}

static uint32_t gather_tenant(const struct native *n, struct tenant *t, struct native_want *want,
			      uint32_t count, bool *ret_known)
{
	const struct tenant *pods = outermost(t);

	if (!pods->pods || pods->observes)
		return count;
	list_for_each(link, &t->guests)
	{
		struct guest *g = list_entry(link, struct guest, link);

		*ret_known &= know_group(n, g);
		for (uint32_t i = 0; g->group && i < pods->devices; i++) {
			uint64_t bytes;

			if (is_limited(pods, i, &bytes))
				want[count++] = (struct native_want){
					.group = g->group,
					.device = pods->device[i].index,
					.tenant = pods->id,
					.bytes = bytes,
				};
		}
	}
	return count;
}

/* False: not all guests' groups are known. */
static bool gather(struct native *n)
{
	struct daemon *d = n->daemon;
	owned(free) struct native_want *want = NULL;
	uint32_t room = 0, count = 0;
	bool known = true;

	list_for_each(link, &d->tenants.all)
	{
		const struct tenant *t = list_entry(link, struct tenant, link);

		room += t->guest_count * outermost(t)->devices;
	}
	want = reallocarray(NULL, room + 1, sizeof(*want));
	if (!want)
		return false;
	list_for_each(link, &d->tenants.all) count =
		gather_tenant(n, list_entry(link, struct tenant, link), want, count, &known);
	return native_book_want(&n->book, want, count) == 0 && known;
}

static void run(struct loop_work *work)
{
	struct native *n = container_of(work, struct native, work);

	for (uint32_t i = 0; i < n->steps; i++) {
		const struct native_row *row = &n->book.row[n->step[i].row];

		n->step[i].result =
			nvml_limit(n->daemon->nvml, row->device, row->group, row->wanted);
	}
}

/* Once for each reason. A group that has gone with its container is none. */
static void complain(struct native *n, const struct native_row *row, int r)
{
	for (size_t i = 0; i < ARRAY_SIZE(n->warned); i++) {
		if (n->warned[i] == r || (r == -ENOENT && row->wanted == NATIVE_NONE))
			return;
		if (n->warned[i])
			continue;
		n->warned[i] = r;
		log_warning("limits.refused",
			    "uuid=%s group=%s reason=%s: the driver limits no memory there, and "
			    "only the guest does",
			    n->daemon->device[row->device].info->uuid_text,
			    log_text(row->group).text, log_text(strerror(-r)).text);
		return;
	}
}

static void on_finished(struct loop_work *work)
{
	struct native *n = container_of(work, struct native, work);

	for (uint32_t i = 0; i < n->steps; i++) {
		const struct native_row *row = &n->book.row[n->step[i].row];
		int r = n->step[i].result;

		if (r < 0)
			complain(n, row, r);
		else
			log_debug("limits.set", "uuid=%s group=%s hard_bytes=%llu",
				  n->daemon->device[row->device].info->uuid_text,
				  log_text(row->group).text, (unsigned long long)row->wanted);
		native_book_done(&n->book, n->step[i].row, r);
	}
	n->steps = 0;
	if (n->stirred)
		native_stirred(n->daemon);
	n->stirred = false;
}

/* The calls that are to be made; without memory for them they are made later. */
static bool collect(struct native *n)
{
	uint32_t row = native_book_next(&n->book, 0);
	struct step *step = reallocarray(n->step, n->book.count + 1, sizeof(*step));

	if (!step)
		return false;
	n->step = step;
	for (; row < n->book.count; row = native_book_next(&n->book, row + 1))
		n->step[n->steps++].row = row;
	return true;
}

static void on_due(struct loop_timer *timer)
{
	struct native *n = container_of(timer, struct native, timer);

	if (n->work.busy) {
		n->stirred = true;
		return;
	}
	if (!gather(n) || !collect(n))
		loop_arm(&n->timer, AGAIN_NS);
	if (n->steps && loop_work(&n->daemon->loop, &n->work, run, on_finished) < 0) {
		n->steps = 0;
		loop_arm(&n->timer, AGAIN_NS);
	}
}

void native_stirred(struct daemon *d)
{
	if (d->native && !d->stopping)
		loop_arm(&d->native->timer, 0);
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
