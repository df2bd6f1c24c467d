/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/place.h"
#include "cli/admin.h"
#include "cli/cli.h"

static int set_one(struct admin *admin, const char *who, const char *assignment, struct fault *why)
{
	const char *equals = strchr(assignment, '=');
	struct wire_message request = {.code = WIRE_tenant_set}, answer;
	char key[WIRE_TEXT_MAX + 1], *end;
	unsigned long number = strtoul(who, &end, 10);

	if (!equals || equals == assignment || equals - assignment > WIRE_TEXT_MAX)
		return fault_set(why, -EINVAL, "'%s': KEY=VALUE is wanted, as in memory=4GiB",
				 assignment);
	if (strlen(equals + 1) > WIRE_TEXT_MAX)
		return fault_set(why, -EINVAL, "'%.40s...': the value is too long", assignment);
	snprintf(key, sizeof(key), "%.*s", (int)(equals - assignment), assignment);
	/* A number is a tenant's id, anything else its name. */
	if (*who && !*end && number <= UINT32_MAX)
		request.tenant_set.tenant = (uint32_t)number;
	else
		wire_set_text(&request.tenant_set.name, who);
	wire_set_text(&request.tenant_set.key, key);
	wire_set_text(&request.tenant_set.value, equals + 1);
	return admin_ask(admin, &request, &answer, why);
}

int set_main(const struct cli_line *line)
{
	owned(admin_close) struct admin admin = {.fd = -1};
	char place[PLACE_MAX];
	struct fault why;
	int r;

	if (line->argc < 2)
		return cli_complain(
			line, CLI_USAGE,
			"a tenant and KEY=VALUE are wanted, as in: mete set 1 memory=4GiB");
	r = admin_connect_any(&admin, place, &why);
	if (r < 0)
		return cli_fail(line, 1, &why);
	if (r == ADMIN_ABSENT)
		return cli_complain(line, 1, "no meted runs, so that there is no tenant '%s'",
				    line->argv[0]);
	for (int i = 1; i < line->argc; i++)
		if (set_one(&admin, line->argv[0], line->argv[i], &why) < 0)
			return cli_fail(line, 1, &why);
	return 0;
}
