/* SPDX-License-Identifier: Apache-2.0 */
/* `mete suspend` and `mete resume`. */
#include "cli/suspend.h"

#include <stdio.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/remote.h"

/* The tenant's programs stand still even if no memory moves. */
static void say_moved(const char *tenant, uint64_t bytes)
{
	if (bytes)
		printf("%s of %s to the host's memory, until `mete resume`\n",
		       text_mib(bytes, TEXT_UP).text, tenant);
	else
		printf("nothing of %s to the host's memory; it stands still until `mete resume`\n",
		       tenant);
}

static void say_resumed(const char *tenant, const struct wire_done *done)
{
	if (done->value)
		printf("%s was not suspended\n", tenant);
	else if (done->moves)
		printf("%s goes on; %s of it come back to the device when its programs use it\n",
		       tenant, text_mib(done->moves, TEXT_UP).text);
	else
		printf("%s goes on; nothing of it was in the host's memory\n", tenant);
}

int suspend_ask(struct admin *admin, const char *who, bool suspends, struct wire_done *ret_done,
		struct fault *why)
{
	struct wire_message request = {.code = WIRE_tenant_suspend}, answer = {0};
	int r;

	request.tenant_suspend.suspends = suspends;
	admin_name_tenant(who, &request.tenant_suspend.tenant, &request.tenant_suspend.name);
	r = admin_ask(admin, &request, &answer, why);
	*ret_done = answer.done;
	return r;
}

static int send(const struct cli_line *line, const char *verb, bool suspends)
{
	owned(remote_close) struct remote remote = {.admin = {.fd = -1}};
	struct wire_done done;
	struct fault why;
	int r;

	if (line->argc != 1)
		return cli_complain(line, CLI_USAGE, "expected one tenant, as in: mete %s 1", verb);
	if (remote_read(&remote, line, &why) < 0)
		return cli_fail(line, CLI_USAGE, &why);
	if (remote_reach(&remote, line->argv[0], &why) < 0)
		return cli_fail(line, 1, &why);
	admin_tell(&remote.admin, verb);
	r = suspend_ask(&remote.admin, line->argv[0], suspends, &done, &why);
	if (remote_check(&remote, r, &why) < 0)
		return cli_fail(line, 1, &why);
	if (suspends)
		say_moved(line->argv[0], done.moves);
	else
		say_resumed(line->argv[0], &done);
	if (suspends && done.value)
		fprintf(stderr,
			"mete %s: %s is suspended, but %s of it cannot move and stay on the device "
			"(mete ps says why)\n",
			verb, line->argv[0], text_mib(done.value, TEXT_UP).text);
	return 0;
}

int suspend_main(const struct cli_line *line)
{
	return send(line, "suspend", true);
}

int resume_main(const struct cli_line *line)
{
	return send(line, "resume", false);
}
