/* SPDX-License-Identifier: Apache-2.0 */

/* Limits the places that one user's tenants take beyond those reserved for each tenant. */
#include "node/memory/ask.h"

#include "node/daemon.h"
#include "node/memory/book.h"
#include "node/memory/measure.h"
#include "node/memory/outside.h"
#include "node/memory/remains.h"
#include "node/memory/watch.h"
#include "node/tenants/guest_send.h"
#include "node/upcalls.h"
#include "node/users/user.h"

static bool may_wait_too(const struct guest *g, const struct guest_device *at)
{
	const struct tenant *t = g->tenant;
	struct ledger_sums own;

	ledger_account_sums(t->device[at - g->device].account, &own);
	return own.waiting < DAEMON_ASKS_SURE || user_may_ask(t->user);
}

static bool waits(const struct tenant_device *at)
{
	uint64_t bytes, since_ns;

	return ledger_first_ask(at->account, &bytes, &since_ns);
}

bool ask_ledger(struct guest_device *at, const struct ledger_request *request)
{
	struct guest *g = at->guest;
	struct daemon *d = g->tenant->daemon;
	bool taken;

	if (!request->bytes) {
		guest_refuse(g, (uint32_t)request->id, WIRE_REFUSED_BAD, "0 bytes were requested");
		return false;
	}
	measure_asker(at, request->bytes);
	remains_asker(at, request->bytes);
	watch_asker(at);
	outside_asker(at, request->bytes);
	if (!may_wait_too(g, at)) {
		guest_refuse(g, (uint32_t)request->id, WIRE_REFUSED_FULL,
			     "more than %d requests of this user are waiting", USER_ASKS);
		return false;
	}
	taken = ledger_ask(d->book.ledger, at->holder, request, loop_now_ns()) == 0;
	if (!taken)
		guest_refuse(
			g, (uint32_t)request->id, WIRE_REFUSED_FULL,
			"more than %d requests of this process are waiting, or %d of its tenant",
			DAEMON_ASKS_OF_GUEST, DAEMON_ASKS_OF_TENANT);
	book_pump(d);
	if (request->may_wait && waits(&g->tenant->device[at - g->device]))
		waits_look(&g->tenant->device[at - g->device]);
	return taken;
}

bool ask_has_no_limit(const struct tenant *t)
{
	return !t->share.memory.bytes && t->share.memory.milli == 1000;
}

const char *ask_oversize_hint(const struct tenant *t)
{
	return ask_has_no_limit(t) && !t->share.oversize
		       ? "; with --oversize managed the driver pages what does not fit"
		       : "";
}
