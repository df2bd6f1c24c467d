/* SPDX-License-Identifier: Apache-2.0 */
/* `mete cordon` and `mete uncordon`. */
#include "cli/cordon.h"

#include <stdio.h>
#include <string.h>

#include "base/place.h"
#include "cli/ps_fetch.h"

int cordon_connect(struct admin *admin, const char *device, struct fault *why)
{
	char place[PLACE_MAX];
	int r = admin_connect_any(admin, place, why);

	if (r == ADMIN_ABSENT)
		return fault_set(why, -ESRCH,
				 "no meted is running that could keep anybody from device '%.60s'; "
				 "one that stays is the machine's: `systemctl enable --now meted`",
				 device);
	return r;
}

int cordon_send(struct admin *admin, const char *device, bool cordoned, uint32_t *ret_index,
		struct fault *why)
{
	struct wire_message request = {.code = WIRE_device_cordon}, answer;
	int r;

	if (!*device || strlen(device) > WIRE_TEXT_MAX)
		return fault_set(
			why, -EINVAL,
			"'%.60s' is no device; accepted: an index, or a UUID or its beginning",
			device);
	wire_set_text(&request.device_cordon.device, device);
	request.device_cordon.on = cordoned;
	r = admin_ask(admin, &request, &answer, why);
	if (r == 0)
		*ret_index = (uint32_t)answer.done.value;
	return r;
}

/* Suspended tenants do not resume by themselves. */
static void say_suspended(const struct ps_rows *rows, uint32_t device)
{
	for (size_t i = 0; i < rows->count; i++) {
		const struct wire_tenant_row *t = &rows->row[i].tenant_row;

		if (rows->row[i].code == WIRE_tenant_row && t->device == device && t->suspended)
			printf("tenant %u (%s) is still suspended: `mete resume %u`\n", t->tenant,
			       t->name.text, t->tenant);
	}
}

static uint32_t tenants_on(const struct ps_rows *rows, uint32_t device)
{
	uint32_t count = 0;

	for (size_t i = 0; i < rows->count; i++)
		count += rows->row[i].code == WIRE_tenant_row &&
			 rows->row[i].tenant_row.device == device;
	return count;
}

static int send(const struct cli_call *call, const char *verb, bool cordoned)
{
	owned(admin_close) struct admin admin = {.fd = -1};
	owned(ps_rows_free) struct ps_rows rows = {0};
	struct fault why;
	uint32_t index = 0, there;

	if (call->argc != 1 || !*call->argv[0])
		return cli_complain(call, CLI_USAGE, "expected one device, as in: mete %s 0", verb);
	if (cordon_connect(&admin, call->argv[0], &why) < 0)
		return cli_fail(call, 1, &why);
	admin_tell(&admin, verb);
	if (cordon_send(&admin, call->argv[0], cordoned, &index, &why) < 0 ||
	    ps_fetch_rows(&admin, 0, &rows, &why) < 0)
		return cli_fail(call, 1, &why);
	there = tenants_on(&rows, index);
	if (!cordoned)
		printf("device %u takes new tenants\n", index);
	else if (there)
		printf("device %u takes no new tenants; %u %s there and run%s on\n", index, there,
		       there == 1 ? "is" : "are", there == 1 ? "s" : "");
	else
		printf("device %u takes no new tenants, and has none\n", index);
	if (!cordoned)
		say_suspended(&rows, index);
	return 0;
}

int cordon_main(const struct cli_call *call)
{
	return send(call, "cordon", true);
}

int uncordon_main(const struct cli_call *call)
{
	return send(call, "uncordon", false);
}
