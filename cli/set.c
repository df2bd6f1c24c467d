/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/ps_rows.h"
#include "cli/sim_node.h"
#include "cli/values.h"

enum { SET_MAX = 16 }; /* fields at once */

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
	/* on-daemon-loss, as it is an option of `mete run`. */
	for (char *at = ret->key; *at; at++)
		if (*at == '-')
			*at = '_';
	ret->value = equals + 1;
	return 0;
}

/* What is wrong whichever tenant is meant. */
static int check_value(const struct assignment *one, struct fault *why)
{
	struct share share;
	char known[200];

	share_init(&share);
	if (share_accepts(one->key))
		return values_field(one->key, one->key, one->value, &share, why);
	share_keys(known, sizeof(known));
	return fault_set(why, -EINVAL, "'%.60s' is not a field of a share; accepted: %s", one->key,
			 known);
}

static int set_one(struct admin *admin, const char *who, const struct assignment *one,
		   struct fault *why)
{
	struct wire_message request = {.code = WIRE_tenant_set}, answer;

	admin_name_tenant(who, &request.tenant_set.tenant, &request.tenant_set.name);
	wire_set_text(&request.tenant_set.key, one->key);
	wire_set_text(&request.tenant_set.value, one->value);
	return admin_ask(admin, &request, &answer, why);
}

/* The memory comes first: it alone depends on the device. */
static int rank(const struct assignment *one)
{
	return strcmp(one->key, "memory") == 0 ? 0 : 1;
}

/* The tenant's first row: that of its first device. 1: there is none of that name or number. */
static int look(struct admin *admin, const char *who, struct wire_tenant_row *ret_row,
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

/* Sends the fields repeatedly until meted accepts no more: a field that is refused now may be
 * accepted after another one (a guarantee above the former cap). */
static int set_each(struct admin *admin, const char *who, const struct assignment *wanted,
		    int count, struct fault *why)
{
	bool done[SET_MAX] = {false};
	int left = count, before;

	do {
		before = left;
		for (int i = 0; i < count; i++) {
			if (done[i])
				continue;
			done[i] = set_one(admin, who, &wanted[i], why) == 0;
			left -= done[i];
		}
	} while (left && left < before);
	return left ? -EINVAL : 0;
}

/* What was taken before another one was refused is put back. */
static void put_back(struct admin *admin, const char *who, const struct wire_tenant_row *before)
{
	struct assignment old[SET_MAX] = {0};
	struct ps_text was[SET_MAX];
	struct wire_tenant_row now = {0};
	struct fault ignored;
	int count = 0;

	if (look(admin, who, &now, &ignored) != 0)
		return;
	for (uint32_t i = 0; share_key(i) && count < SET_MAX; i++) {
		was[count] = ps_field(&before->share, share_key(i));
		if (strcmp(was[count].text, ps_field(&now.share, share_key(i)).text) == 0)
			continue;
		snprintf(old[count].key, sizeof(old[count].key), "%s", share_key(i));
		old[count].value = was[count].text;
		count++;
	}
	best_effort(set_each(admin, who, old, count, &ignored));
}

/* All or none: what can be refused whatever the others are comes first. */
static int set_all(struct admin *admin, const char *who, const struct assignment *wanted, int count,
		   const struct wire_tenant_row *before, struct fault *why)
{
	struct assignment ordered[SET_MAX];
	int size = 0, r;

	for (int round = 0; round <= 1; round++)
		for (int i = 0; i < count; i++)
			if (rank(&wanted[i]) == round)
				ordered[size++] = wanted[i];
	r = set_each(admin, who, ordered, size, why);
	if (r < 0 && before->tenant)
		put_back(admin, who, before);
	return r;
}

static int set_and_show(const struct cli_line *line, struct admin *admin,
			const struct assignment *wanted, int count, struct fault *why)
{
	struct wire_tenant_row before = {0}, after = {0};
	int r = look(admin, line->argv[0], &before, why);

	/* Where there is none, meted has the sentence. */
	if (r >= 0)
		r = set_all(admin, line->argv[0], wanted, count, &before, why);
	if (r == 0)
		r = look(admin, line->argv[0], &after, why);
	if (r == 0 && after.tenant)
		print_change(&before, &after, wanted, count);
	return r < 0 ? r : 0;
}

int set_main(const struct cli_line *line)
{
	owned(admin_close) struct admin admin = {.fd = -1};
	int count = line->argc - 1;
	struct assignment wanted[SET_MAX] = {0};
	struct fault why;

	if (line->argc < 2)
		return cli_complain(
			line, CLI_USAGE,
			"expected a tenant and KEY=VALUE, as in: mete set 1 memory=4GiB");
	if (count > SET_MAX)
		return cli_complain(line, CLI_USAGE, "more than %d fields", SET_MAX);
	for (int i = 0; i < count; i++)
		if (read_assignment(line->argv[i + 1], &wanted[i], &why) < 0 ||
		    check_value(&wanted[i], &why) < 0)
			return cli_fail(line, CLI_USAGE, &why);
	if (admin_connect_for(&admin, line->argv[0], &why) < 0)
		return cli_fail(line, 1, &why);
	admin_tell(&admin, "set");
	/* The tenant is there all the same. */
	if (sim_node_same(admin.daemon.pid, &why) < 0)
		fprintf(stderr, "mete set: note: %s\n", why.text);
	return set_and_show(line, &admin, wanted, count, &why) < 0 ? cli_fail(line, 1, &why) : 0;
}
