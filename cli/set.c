/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/set.h"

#include <string.h>

#include "base/text.h"
#include "base/words.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "view/ps_rows.h"
#include "cli/sim_node.h"
#include "cli/values.h"

enum {
	MINOR_OF_SEVERAL = 2, /* of the first meted that changes several fields at once */
};

struct assignment {
	char key[WIRE_TEXT_MAX + 1];
	const char *value; /* borrowed */
};

static int read_assignment(const char *text, struct assignment *ret, struct fault *why)
{
	const char *equals = strchr(text, '=');

	if (!equals || equals == text || equals - text > WIRE_TEXT_MAX)
		return fault_set(why, -EINVAL, "'%.60s': expected KEY=VALUE, as in memory=4GiB",
				 text);
	if (strlen(equals + 1) > WIRE_TEXT_MAX)
		return fault_set(why, -EINVAL, "'%.40s...': the value is too long", text);
	/* An empty text would mean the default. */
	if (!equals[1])
		return fault_set(why, -EINVAL, "'%.60s': the value is empty; as in memory=4GiB",
				 text);
	snprintf(ret->key, sizeof(ret->key), "%.*s", (int)(equals - text), text);
	/* on-daemon-loss, as the option of `mete run` is written. */
	for (char *at = ret->key; *at; at++)
		if (*at == '-')
			*at = '_';
	ret->value = equals + 1;
	return 0;
}

/* Faults that do not depend on the tenant. */
static int check_value(const struct assignment *one, struct fault *why)
{
	const char *name[SHARE_FIELDS], *nearest;
	struct share share;
	uint32_t n = 0;
	char known[200];

	share_init(&share);
	if (share_accepts(one->key))
		return values_field(one->key, one->key, one->value, &share, why);
	for (; n < ARRAY_SIZE(name) && share_key(n); n++)
		name[n] = share_key(n);
	nearest = words_nearest(one->key, name, n);
	if (nearest)
		return fault_set(why, -EINVAL,
				 "'%.60s' is not a field of a share; did you mean '%s'?", one->key,
				 nearest);
	share_keys(known, sizeof(known));
	return fault_set(why, -EINVAL, "'%.60s' is not a field of a share; accepted: %s", one->key,
			 known);
}

/* A field may be given only once: of two values either might count. */
static int check_once(const struct assignment *wanted, int last, struct fault *why)
{
	for (int i = 0; i < last; i++)
		if (strcmp(wanted[i].key, wanted[last].key) == 0)
			return fault_set(why, -EINVAL, "%s is given twice: %.60s and %.60s",
					 wanted[last].key, wanted[i].value, wanted[last].value);
	return 0;
}

/* All in one request: meted changes all of them or none. */
static int ask(struct admin *admin, const char *who, const struct assignment *wanted, int count,
	       struct fault *why)
{
	struct wire_message request = {.code = WIRE_tenant_set}, answer;
	char *more = request.tenant_set.more.text;
	size_t n = 0, size = sizeof(request.tenant_set.more.text);

	if (count > 1 && admin->daemon.minor < MINOR_OF_SEVERAL)
		return fault_set(why, -EPROTO,
				 "the running meted is older than this mete and changes one field "
				 "at a time: restart it, or set the fields one after the other");
	admin_name_tenant(who, &request.tenant_set.tenant, &request.tenant_set.name);
	wire_set_text(&request.tenant_set.key, wanted[0].key);
	wire_set_text(&request.tenant_set.value, wanted[0].value);
	for (int i = 1; i < count && n < size; i++)
		n += (size_t)snprintf(more + n, size - n, "%s%s=%s", i > 1 ? "\n" : "",
				      wanted[i].key, wanted[i].value);
	if (n >= size)
		return fault_set(why, -EINVAL,
				 "the fields are too long together: set some of them first");
	return admin_ask(admin, &request, &answer, why);
}

/* The tenant's first row: that of its first device. 1: there is none of that name or number. */
static int fetch_row(struct admin *admin, const char *who, struct wire_tenant_row *ret_row,
		     struct fault *why)
{
	struct wire_message request = {.code = WIRE_list}, row = {0};
	char plain[WIRE_TEXT_MAX + 1], *end;
	unsigned long number = strtoul(who, &end, 10);
	bool by_number = *who && !*end, found = false;
	int r = admin_ask(admin, &request, &row, why);

	snprintf(plain, sizeof(plain), "%s", who);
	text_make_plain(plain);
	for (; r == 0 && row.code != WIRE_end; r = admin_next(admin, &row, why)) {
		if (row.code != WIRE_tenant_row || found)
			continue;
		found = by_number ? row.tenant_row.tenant == number
				  : strcmp(row.tenant_row.name.text, plain) == 0;
		if (found)
			*ret_row = row.tenant_row;
	}
	return r < 0 ? r : !found;
}

/* One line for each field that was named or changed with it (a mode changes others). */
static void print_change(const struct wire_tenant_row *before, const struct wire_tenant_row *after,
			 const struct assignment *wanted, int count)
{
	printf("tenant %u %s:\n", after->tenant, after->name.text);
	for (uint32_t i = 0; share_key(i); i++) {
		const char *key = share_key(i);
		struct ps_text was = ps_field(&before->share, key);
		struct ps_text is = ps_field(&after->share, key);
		bool named = false;

		for (int k = 0; k < count; k++)
			named |= strcmp(wanted[k].key, key) == 0;
		if (named || strcmp(was.text, is.text) != 0)
			printf("  %-15s %s -> %s\n", key, was.text, is.text);
	}
	if (after->outer)
		printf("  it is within tenant %u, and has no more than a part of that one's "
		       "share\n",
		       after->outer);
	if (ps_held(after) > after->limit)
		printf("  it holds %s more than it is now allowed: new memory is refused until "
		       "that is "
		       "freed\n",
		       text_bytes(ps_held(after) - after->limit).text);
}

/* The name as it is typed. */
static int read_all(char *const *typed, int count, struct assignment wanted[SHARE_FIELDS],
		    struct fault *why)
{
	if (count > SHARE_FIELDS)
		return fault_set(why, -EINVAL,
				 "%d fields are given, but a share has %d, and each is given once",
				 count, SHARE_FIELDS);
	for (int i = 0; i < count; i++)
		if (read_assignment(typed[i], &wanted[i], why) < 0 ||
		    check_value(&wanted[i], why) < 0 || check_once(wanted, i, why) < 0)
			return -EINVAL;
	return 0;
}

int set_fields(struct admin *admin, const char *who, char *const *typed, int count,
	       struct fault *why)
{
	struct assignment wanted[SHARE_FIELDS] = {0};
	int r = read_all(typed, count, wanted, why);

	return r < 0 ? r : ask(admin, who, wanted, count, why);
}

/* meted follows a pod's annotations, and would undo any other change. */
static int annotate(const struct remote *remote, const struct wire_tenant_row *tenant,
		    char *const *typed, int count, struct fault *why)
{
	int r = remote_annotate(remote, tenant->name.text, typed, count, why);

	if (r == 0)
		printf("%s: annotated; meted reports values that it does not accept as an event of "
		       "the pod\n",
		       tenant->name.text);
	return r;
}

static int set_and_show(const struct cli_call *call, struct remote *remote,
			const struct assignment *wanted, int count, struct fault *why)
{
	struct wire_tenant_row before = {0}, after = {0};
	struct admin *admin = &remote->admin;
	int r = fetch_row(admin, call->argv[0], &before, why);

	if (r == 0 && remote->node && remote_is_pods(&before))
		return annotate(remote, &before, call->argv + 1, count, why);
	/* If there is no such tenant, meted's answer says so. */
	if (r >= 0)
		r = ask(admin, call->argv[0], wanted, count, why);
	if (r == 0)
		r = fetch_row(admin, call->argv[0], &after, why);
	if (r == 0 && after.tenant)
		print_change(&before, &after, wanted, count);
	return r < 0 ? remote_check(remote, r, why) : 0;
}

int set_main(const struct cli_call *call)
{
	owned(remote_close) struct remote remote = {.admin = {.fd = -1}};
	int count = call->argc - 1;
	struct assignment wanted[SHARE_FIELDS] = {0};
	struct fault why;

	if (call->argc < 2 || !*call->argv[0])
		return cli_complain(
			call, CLI_USAGE,
			"expected a tenant and KEY=VALUE, as in: mete set 1 memory=4GiB");
	if (remote_read(&remote, call, &why) < 0 ||
	    read_all(call->argv + 1, count, wanted, &why) < 0)
		return cli_fail(call, CLI_USAGE, &why);
	if (remote_reach(&remote, call->argv[0], &why) < 0)
		return cli_fail(call, 1, &why);
	admin_tell(&remote.admin, "set");
	/* The tenant exists nevertheless. */
	if (!remote.node && sim_node_same(remote.admin.daemon.pid, &why) < 0)
		fprintf(stderr, "mete set: note: %s\n", why.text);
	return set_and_show(call, &remote, wanted, count, &why) < 0 ? cli_fail(call, 1, &why) : 0;
}
