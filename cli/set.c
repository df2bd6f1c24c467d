/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/place.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "core/share.h"

enum { SET_MAX = 16 }; /* fields at once */

struct assignment {
	char key[WIRE_TEXT_MAX + 1];
	const char *value; /* borrowed */
};

static int read_assignment(const char *text, struct assignment *ret, struct fault *why)
{
	const char *equals = strchr(text, '=');

	if (!equals || equals == text || equals - text > WIRE_TEXT_MAX)
		return fault_set(why, -EINVAL, "'%.60s': KEY=VALUE is wanted, as in memory=4GiB",
				 text);
	if (strlen(equals + 1) > WIRE_TEXT_MAX)
		return fault_set(why, -EINVAL, "'%.40s...': the value is too long", text);
	/* An empty text would mean the default. */
	if (!equals[1])
		return fault_set(why, -EINVAL, "'%.60s': the value is empty; as in memory=4GiB",
				 text);
	snprintf(ret->key, sizeof(ret->key), "%.*s", (int)(equals - text), text);
	ret->value = equals + 1;
	return 0;
}

static int set_one(struct admin *admin, const char *who, const struct assignment *one,
		   struct fault *why)
{
	struct wire_message request = {.code = WIRE_tenant_set}, answer;
	char *end;
	unsigned long number = strtoul(who, &end, 10);

	/* A number is a tenant's id, anything else its name. */
	if (*who && !*end && number <= UINT32_MAX)
		request.tenant_set.tenant = (uint32_t)number;
	else
		wire_set_text(&request.tenant_set.name, who);
	wire_set_text(&request.tenant_set.key, one->key);
	wire_set_text(&request.tenant_set.value, one->value);
	return admin_ask(admin, &request, &answer, why);
}

/*
 * meted takes one field at a time, and what it refuses must leave the others as they were. So what
 * cannot be read goes first, for meted's sentence; then the memory, which alone depends on the
 * device; then the rest.
 */
static int rank(const struct assignment *one)
{
	struct share share;

	share_init(&share);
	if (share_set(&share, one->key, one->value) != 0)
		return 0;
	return strcmp(one->key, "memory") == 0 ? 1 : 2;
}

int set_main(const struct cli_line *line)
{
	owned(admin_close) struct admin admin = {.fd = -1};
	int count = line->argc - 1;
	char place[PLACE_MAX];
	struct assignment wanted[SET_MAX] = {0};
	struct fault why;
	int r;

	if (line->argc < 2)
		return cli_complain(
			line, CLI_USAGE,
			"a tenant and KEY=VALUE are wanted, as in: mete set 1 memory=4GiB");
	if (count > SET_MAX)
		return cli_complain(line, CLI_USAGE, "more than %d fields", SET_MAX);
	for (int i = 0; i < count; i++)
		if (read_assignment(line->argv[i + 1], &wanted[i], &why) < 0)
			return cli_fail(line, CLI_USAGE, &why);
	r = admin_connect_any(&admin, place, &why);
	if (r < 0)
		return cli_fail(line, 1, &why);
	if (r == ADMIN_ABSENT)
		return cli_complain(line, 1, "no meted runs, so that there is no tenant '%s'",
				    line->argv[0]);
	for (int round = 0; round <= 2; round++) {
		for (int i = 0; i < count; i++) {
			if (rank(&wanted[i]) != round)
				continue;
			if (set_one(&admin, line->argv[0], &wanted[i], &why) < 0)
				return cli_fail(line, 1, &why);
		}
	}
	return 0;
}
