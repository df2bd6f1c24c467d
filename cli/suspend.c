/* SPDX-License-Identifier: Apache-2.0 */
/* `mete suspend` and `mete resume`. */
#include "cli/suspend.h"

#include <stdio.h>

#include "base/text.h"
#include "cli/cli.h"
#include "cli/remote.h"
#include "cli/values.h"

enum {
	MINOR_THAT_WAITS = 4, /* of meteds that know what is still leaving */
	WAITS_S = 10,	      /* where --wait does not say for how long */
	ANSWERS_MS = 10000,   /* beyond that */
};
static const uint64_t second_ns = 1000000000, most_ns = 3600 * second_ns;

/* The tenant's programs stand still even if no memory moves. */
static void say_moved(const char *tenant, const struct wire_done *done)
{
	uint64_t gone = done->moves - done->leaving;

	if (!done->moves)
		printf("%s stands still until `mete resume`; none of its memory has moved\n",
		       tenant);
	else if (!done->leaving)
		printf("%s stands still until `mete resume`: %s of it are in the host's memory\n",
		       tenant, text_size(done->moves, TEXT_UP).text);
	else
		printf("%s stands still until `mete resume`: %s of it are still moving out%s%s%s "
		       "(mete ps says how far it is)\n",
		       tenant, text_size(done->leaving, TEXT_UP).text, gone ? ", and " : "",
		       gone ? text_size(gone, TEXT_DOWN).text : "", gone ? " have left" : "");
}

static void say_resumed(const char *tenant, const struct wire_done *done)
{
	if (done->value)
		printf("%s was not suspended\n", tenant);
	else if (!done->moves)
		printf("%s goes on; nothing of it was in the host's memory\n", tenant);
	else if (!done->leaving)
		printf("%s goes on; %s of it come back to the device when its programs use it\n",
		       tenant, text_size(done->moves, TEXT_UP).text);
	else
		printf("%s goes on; %s of its %s were still moving out: what has left comes back "
		       "to the device when its programs use it\n",
		       tenant, text_size(done->leaving, TEXT_UP).text,
		       text_size(done->moves, TEXT_UP).text);
}

int suspend_ask(struct admin *admin, const char *who, bool suspends, uint64_t wait_ns,
		struct wire_done *ret_done, struct fault *why)
{
	struct wire_message request = {.code = WIRE_tenant_suspend}, answer = {0};
	int r;

	request.tenant_suspend.suspends = suspends;
	request.tenant_suspend.wait = wait_ns;
	admin_name_tenant(who, &request.tenant_suspend.tenant, &request.tenant_suspend.name);
	r = admin_ask(admin, &request, &answer, why);
	*ret_done = answer.done;
	/* It answers before anything has left. */
	if (suspends && admin->daemon.minor < MINOR_THAT_WAITS)
		ret_done->leaving = ret_done->moves;
	return r;
}

/* What `mete suspend --wait` says. */
static int read_wait(const struct cli_call *call, bool suspends, uint64_t *ret_ns,
		     struct fault *why)
{
	*ret_ns = suspends ? WAITS_S * second_ns : 0;
	return suspends ? values_time(call, "wait", 0, most_ns, ret_ns, why) : 0;
}

static int send(const struct cli_call *call, const char *verb, bool suspends)
{
	owned(remote_close) struct remote remote = {.admin = {.fd = -1}};
	struct wire_done done;
	struct fault why;
	uint64_t wait_ns;
	int r;

	if (call->argc != 1 || !*call->argv[0])
		return cli_complain(call, CLI_USAGE, "expected one tenant, as in: mete %s 1", verb);
	if (read_wait(call, suspends, &wait_ns, &why) < 0 || remote_read(&remote, call, &why) < 0)
		return cli_fail(call, CLI_USAGE, &why);
	if (remote_reach(&remote, call->argv[0], &why) < 0)
		return cli_fail(call, 1, &why);
	admin_tell(&remote.admin, verb);
	if (wait_ns)
		admin_be_patient(&remote.admin, (int)(wait_ns / 1000000) + ANSWERS_MS);
	r = suspend_ask(&remote.admin, call->argv[0], suspends, wait_ns, &done, &why);
	if (remote_check(&remote, r, &why) < 0)
		return cli_fail(call, 1, &why);
	if (suspends)
		say_moved(call->argv[0], &done);
	else
		say_resumed(call->argv[0], &done);
	if (suspends && done.value)
		fprintf(stderr,
			"mete %s: %s is suspended, but %s of it cannot move and stay on the device "
			"(mete ps says why)\n",
			verb, call->argv[0], text_size(done.value, TEXT_UP).text);
	return 0;
}

int suspend_main(const struct cli_call *call)
{
	return send(call, "suspend", true);
}

int resume_main(const struct cli_call *call)
{
	return send(call, "resume", false);
}
