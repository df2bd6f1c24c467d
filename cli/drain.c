/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `mete drain`: cordons a device, and then waits until no tenant is there any more. Tenants of the
 * classes that its options name are parked, or told to end, instead. What is done with a tenant is
 * decided when it is first seen.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "cli/cordon.h"
#include "cli/ps_fetch.h"
#include "cli/values.h"

enum { CHECK_MS = 500, NOBODY = SHARE_BATCH + 1 };

static const uint64_t day_ns = 86400ull * 1000000000;

enum doing_with { WAITS_FOR, PARKS, ENDS, KILLED };

/* The tenants that it has seen. */
struct seen {
	uint32_t tenant;
	enum doing_with what;
	uint64_t since_ns;
};

struct drain {
	struct admin admin;
	const char *name; /* of the device, as it was given */
	uint32_t device;
	/* From this class on, downwards: lower classes have greater numbers. NOBODY: no class. */
	unsigned park_from, end_from;
	uint64_t grace_ns, timeout_ns; /* UINT64_MAX: as long as it takes */
	bool only_says;
	struct seen *seen; /* owned */
	size_t count;
};

static void drain_done(struct drain *d)
{
	admin_close(&d->admin);
	free(d->seen);
}
static void drain_done_owned(struct drain *d)
{
	drain_done(d);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- one tenant ------------------------------------------------------------------------------ */

static unsigned class_of(const struct wire_tenant_row *t)
{
	struct ps_text text = ps_field(&t->share, "class");
	struct share share;
	struct fault why;

	share_init(&share);
	if (values_field("class", "class", text.text, &share, &why) < 0)
		return SHARE_STANDARD; /* a meted that knows more classes */
	return share.class;
}

static int park(struct drain *d, const struct wire_tenant_row *t, struct fault *why)
{
	struct wire_message request = {.code = WIRE_tenant_suspend}, answer;

	request.tenant_suspend.tenant = t->tenant;
	request.tenant_suspend.suspends = 1;
	return admin_ask(&d->admin, &request, &answer, why);
}

static int end(struct drain *d, const struct wire_tenant_row *t, bool at_once, struct fault *why)
{
	struct wire_message request = {.code = WIRE_tenant_end}, answer;

	request.tenant_end.tenant = t->tenant;
	request.tenant_end.at_once = at_once;
	return admin_ask(&d->admin, &request, &answer, why);
}

static void say(const struct wire_tenant_row *t, const char *what, const struct fault *why)
{
	printf("tenant %u (%s): %s%s%s\n", t->tenant, t->name.text, what, why ? ": " : "",
	       why ? why->text : "");
	fflush(stdout);
}

/* A tenant that cannot be parked as wanted is ended if its class allows that, or waited for. */
static enum doing_with begin(struct drain *d, const struct wire_tenant_row *t)
{
	unsigned class = class_of(t);
	bool parks = class >= d->park_from, ends = class >= d->end_from;
	struct fault why;

	if (d->only_says) {
		say(t,
		    parks  ? "would be parked"
		    : ends ? "would be ended"
			   : "would be waited for",
		    NULL);
		return WAITS_FOR;
	}
	if (parks && park(d, t, &why) == 0) {
		say(t, "is parked", NULL);
		return PARKS;
	}
	if (parks)
		say(t, "cannot be parked", &why);
	if (ends && end(d, t, false, &why) == 0) {
		say(t, "is told to end", NULL);
		return ENDS;
	}
	say(t, ends ? "cannot be ended, and is waited for" : "is waited for", ends ? &why : NULL);
	return WAITS_FOR;
}

static struct seen *find(struct drain *d, uint32_t tenant)
{
	for (size_t i = 0; i < d->count; i++)
		if (d->seen[i].tenant == tenant)
			return &d->seen[i];
	return NULL;
}

static int see(struct drain *d, const struct wire_tenant_row *t, struct fault *why)
{
	struct seen *it = find(d, t->tenant);

	if (!it) {
		it = reallocarray(d->seen, d->count + 1, sizeof(*it));
		if (!it)
			return fault_set(why, -ENOMEM, "out of memory");
		d->seen = it;
		it += d->count++;
		*it = (struct seen){.tenant = t->tenant, .since_ns = now_ns()};
		it->what = begin(d, t);
	}
	if (it->what != ENDS || now_ns() - it->since_ns < d->grace_ns)
		return 0;
	it->what = KILLED;
	say(t, "has not ended in time, and is killed", NULL);
	return end(d, t, true, why);
}

/* All of its memory that can move has left. The rest stays until the tenant ends. */
static bool is_parked(const struct wire_tenant_row *t)
{
	return t->suspended && !t->movable;
}

/* ---- all of them ----------------------------------------------------------------------------- */

struct left {
	uint32_t count, parked;
	uint64_t parked_bytes; /* what the parked tenants keep on the device */
	char names[300];       /* of the other tenants, as many as fit */
};

static void add_name(struct left *left, const struct wire_tenant_row *t)
{
	size_t n = strlen(left->names);

	snprintf(left->names + n, sizeof(left->names) - n, "%s%u (%.40s)", n ? ", " : "", t->tenant,
		 t->name.text);
	left->count++;
}

static int review(struct drain *d, struct left *ret_left, struct fault *why)
{
	owned(ps_rows_free) struct ps_rows rows = {0};
	int r = ps_fetch_rows(&d->admin, 0, &rows, why);

	*ret_left = (struct left){0};
	for (size_t i = 0; r == 0 && i < rows.count; i++) {
		const struct wire_tenant_row *t = &rows.row[i].tenant_row;

		if (rows.row[i].code != WIRE_tenant_row || t->device != d->device)
			continue;
		r = see(d, t, why);
		if (!is_parked(t)) {
			add_name(ret_left, t);
			continue;
		}
		ret_left->parked++;
		ret_left->parked_bytes += t->resident + t->residual;
	}
	return r;
}

static void say_drained(const struct drain *d, const struct left *left)
{
	if (!left->parked)
		printf("device %u is drained: nobody is there\n", d->device);
	else
		printf("device %u is drained: %u tenant%s %s parked, and %s of %s cannot move and "
		       "stays\n",
		       d->device, left->parked, left->parked == 1 ? "" : "s",
		       left->parked == 1 ? "is" : "are",
		       text_size(left->parked_bytes, TEXT_UP).text,
		       left->parked == 1 ? "it" : "them");
}

static int wait_for_all(struct drain *d, struct fault *why)
{
	uint64_t began = now_ns();
	struct left left;

	for (;;) {
		int r = review(d, &left, why);

		if (r == 0 && d->only_says && !d->count)
			printf("device %u: nobody is there\n", d->device);
		if (r < 0 || d->only_says)
			return r;
		if (!left.count)
			break;
		if (now_ns() - began >= d->timeout_ns)
			return fault_set(why, -ETIMEDOUT,
					 "device %u takes no new tenants, and still has "
					 "tenant%s %s",
					 d->device, left.count == 1 ? "" : "s", left.names);
		/* meted sends no message when a tenant ends, or the last of its memory has left. */
		poll(NULL, 0, CHECK_MS);
	}
	say_drained(d, &left);
	return 0;
}

/* ---- the verb -------------------------------------------------------------------------------- */

static int read_class(const struct cli_call *call, const char *option, unsigned *ret_from,
		      struct fault *why)
{
	const char *text = cli_value(call, option);
	char typed[16];
	struct share share;

	*ret_from = NOBODY;
	if (!text)
		return 0;
	share_init(&share);
	snprintf(typed, sizeof(typed), "--%s", option);
	if (values_field(typed, "class", text, &share, why) < 0)
		return -EINVAL;
	*ret_from = share.class;
	return 0;
}

static int read_line(const struct cli_call *call, struct drain *d, struct fault *why)
{
	int r = read_class(call, "park", &d->park_from, why);

	d->grace_ns = 30ull * 1000000000;
	d->timeout_ns = UINT64_MAX;
	d->only_says = cli_value(call, "dry_run") != NULL;
	if (r == 0)
		r = read_class(call, "end", &d->end_from, why);
	if (r == 0)
		r = values_time(call, "grace", 0, day_ns, &d->grace_ns, why);
	if (r == 0)
		r = values_time(call, "timeout", 0, 365 * day_ns, &d->timeout_ns, why);
	if (r == 0 && cli_value(call, "grace") && d->end_from == NOBODY)
		r = fault_set(
			why, -EINVAL,
			"--grace is the time that ended tenants have to exit: it needs --end");
	return r;
}

/* A dry run does not cordon the device. */
static int find_device(struct drain *d, struct fault *why)
{
	owned(ps_rows_free) struct ps_rows rows = {0};
	uint32_t found = 0;
	int r = ps_fetch_rows(&d->admin, 0, &rows, why);

	for (size_t i = 0; r == 0 && i < rows.count; i++) {
		const struct wire_device_row *row = &rows.row[i].device_row;
		char index[16];

		if (rows.row[i].code != WIRE_device_row)
			continue;
		snprintf(index, sizeof(index), "%u", row->index);
		if (strcmp(index, d->name) != 0 && !text_uuid_begins(ps_uuid(row).text, d->name))
			continue;
		d->device = row->index;
		found++;
	}
	if (r == 0 && found != 1)
		r = fault_set(why, -ENODEV,
			      "%s '%.60s'; accepted: an index, or a UUID or enough of its "
			      "beginning (`mete ps` lists them)",
			      found ? "several devices are called" : "there is no device", d->name);
	return r;
}

int drain_main(const struct cli_call *call)
{
	owned(drain_done) struct drain d = {.admin = {.fd = -1}};
	struct fault why;
	int r;

	if (call->argc != 1 || !*call->argv[0])
		return cli_complain(call, CLI_USAGE, "expected one device, as in: mete drain 0");
	d.name = call->argv[0];
	if (read_line(call, &d, &why) < 0)
		return cli_fail(call, CLI_USAGE, &why);
	if (cordon_connect(&d.admin, d.name, &why) < 0)
		return cli_fail(call, 1, &why);
	admin_tell(&d.admin, "drain");
	r = d.only_says ? find_device(&d, &why)
			: cordon_send(&d.admin, d.name, true, &d.device, &why);
	if (r == 0)
		r = wait_for_all(&d, &why);
	return r < 0 ? cli_fail(call, 1, &why) : 0;
}
