/* SPDX-License-Identifier: Apache-2.0 */
#include "node/peers/words_refuse.h"

#include "base/text.h"
#include "node/memory/ask.h"
#include "node/memory/outside.h"
#include "node/tenants/guest.h"
#include "node/tenants/guest_send.h"
#include "node/tenants/nested.h"

/* Names the innermost account around the tenant that has no room for so many bytes. */
static const char *whose_part(const struct tenant *t, uint32_t index, uint64_t bytes)
{
	for (const struct tenant *outer = t->outer; outer; outer = outer->outer)
		if (bytes > ledger_account_room(nested_account(outer, index)))
			return "the enclosing tenant's limit";
	if (!t->user || bytes > ledger_account_room(t->user->account[index]))
		return "the limit on this user's tenants together";
	return "the limit on all users' tenants together";
}

enum { REASON_ROOM = WIRE_TEXT_MAX + 200 }; /* cut when it is sent, if too long */

/* What the sentences about a refused ask have in common. */
struct refused_ask {
	struct tenant *tenant;
	const struct ledger_action *action;
	uint32_t device; /* the machine's */
	struct ledger_sums own, all;
	const char *what;
	char advance[60]; /* "", or ", 12MiB granted in advance" */
};

static void look_at(struct refused_ask *it, const struct tenant_device *at)
{
	const struct ledger_action *action = it->action;
	uint64_t credit;

	it->device = at->index;
	ledger_account_sums(at->account, &it->own);
	ledger_device_sums(it->tenant->daemon->book.ledger, at->index, &it->all);
	/* A check asks for room for one byte; the sums include the module already. */
	it->what = !action->residual		     ? "memory"
		   : action->residual == LEDGER_ROOM ? "a module"
						     : "a context";
	/* Unused credit counts, too. Without it the figures would not add up. */
	credit = action->reason == LEDGER_OVER ? it->own.granted - it->own.allocated
					       : it->all.granted - it->all.allocated;
	if (credit)
		snprintf(it->advance, sizeof(it->advance), ", %s granted in advance",
			 text_size(credit, TEXT_UP).text);
}

static void say_limit(const struct refused_ask *it, char reason[REASON_ROOM])
{
	bool whole = ask_has_no_limit(it->tenant) && it->own.limit >= it->all.limit;

	snprintf(reason, REASON_ROOM, "%s%s%s is reached: %s in use%s, %s of %s requested%s",
		 whole ? "all that the device has for one program, " : "the limit of ",
		 text_size(it->own.limit, TEXT_DOWN).text, whole ? "," : "",
		 text_size(it->own.allocated + it->own.residual, TEXT_UP).text, it->advance,
		 text_size(it->action->bytes, TEXT_UP).text, it->what,
		 whole ? ask_oversize_hint(it->tenant) : "");
}

static void say_part(const struct refused_ask *it, char reason[REASON_ROOM])
{
	snprintf(reason, REASON_ROOM, "%s is reached: %s left, %s of %s requested",
		 whose_part(it->tenant, it->device, it->action->bytes),
		 text_size(it->own.room, TEXT_DOWN).text,
		 text_size(it->action->bytes, TEXT_UP).text, it->what);
}

static void say_full(const struct refused_ask *it, char reason[REASON_ROOM])
{
	const char *waited = it->action->reason == LEDGER_DEADLINE
				     ? " after the longest wait that the share allows"
				     : "";

	snprintf(reason, REASON_ROOM,
		 "the device is full%s: of %s, %s in use%s%s, %s of %s requested", waited,
		 text_size(it->all.limit, TEXT_DOWN).text,
		 text_size(it->all.allocated - it->all.evicted + it->all.residual, TEXT_UP).text,
		 outside_text(it->tenant->daemon, it->device).text, it->advance,
		 text_size(it->action->bytes, TEXT_UP).text, it->what);
}

void words_refuse(struct guest *g, uint32_t device, const struct ledger_action *action)
{
	struct refused_ask it = {.tenant = g->tenant, .action = action};
	uint32_t code = WIRE_REFUSED_LIMIT;
	char reason[REASON_ROOM];

	look_at(&it, &g->tenant->device[device]);
	if (action->reason == LEDGER_OVER) {
		say_limit(&it, reason);
	} else if (action->reason == LEDGER_PART) {
		say_part(&it, reason);
	} else {
		code = action->reason == LEDGER_DEADLINE ? WIRE_REFUSED_DEADLINE
							 : WIRE_REFUSED_FULL;
		say_full(&it, reason);
	}
	guest_refuse_memory(g, device, (uint32_t)action->id, code, "%s", reason);
}
