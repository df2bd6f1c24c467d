/* SPDX-License-Identifier: Apache-2.0 */
#include "node/move/move_refuse.h"

#include "base/text.h"
#include "node/daemon.h"
#include "node/memory/ask.h"
#include "node/memory/outside.h"
#include "node/move/ask_types.h"
#include "node/move/move_ask.h"
#include "node/move/move_inside.h"
#include "node/move/move_kept.h"
#include "node/tenants/guest_send.h"

/* "the device is full: ...; " if the request would be granted without the memory that is in use
 * outside; or "". */
static struct outside_text because_of_outside(const struct ask *ask)
{
	const struct tenant_device *of = of_tenant(ask->at);
	const struct daemon *d = of->tenant->daemon;
	const uint64_t capacity =
		of->member.residency->capacity_bytes + outside_bytes(d, of->index);
	const struct outside_text outside = outside_text(d, of->index);
	struct outside_text ret = {""};

	if (*outside.text && residency_refusal(&of->member, ask->request.bytes, capacity) == 0)
		snprintf(ret.text, sizeof(ret.text), "the device is full: it is in use%.*s; ",
			 (int)sizeof(ret.text) - 40, outside.text);
	return ret;
}

void move_refuse_hindered(const struct ask *ask, const struct residency_member *by)
{
	of_tenant(ask->at)->move_refused++;
	guest_refuse_memory(ask->at->guest, tenant_index(of_tenant(ask->at)),
			    (uint32_t)ask->request.id, WIRE_REFUSED_FULL,
			    "%s were asked for, and %s",
			    text_size(ask->request.bytes, TEXT_UP).text, move_hindrance(by).text);
}

void move_refuse(const struct ask *ask, int reason)
{
	struct tenant_device *of = of_tenant(ask->at);
	const struct residency *r = of->member.residency;
	struct guest *g = ask->at->guest;
	uint32_t id = (uint32_t)ask->request.id;
	const struct outside_text full = because_of_outside(ask);
	const struct tenant_device *keeper = move_keeper(device_under(ask->at));
	char asked[32], has[32];

	of->move_refused++;
	snprintf(asked, sizeof(asked), "%s", text_size(ask->request.bytes, TEXT_UP).text);
	snprintf(has, sizeof(has), "%s",
		 text_size(of->member.resident_bytes + of->member.out_bytes, TEXT_UP).text);
	if (reason == RESIDENCY_LARGE)
		guest_refuse_memory(
			g, tenant_index(of), id, WIRE_REFUSED_FULL,
			"%sthe tenant alone would be larger than %s: it holds %s, %s more "
			"were asked for, and there are %s for movable memory%s",
			full.text, *full.text ? "what is left" : "the device", has, asked,
			text_size(r->capacity_bytes, TEXT_DOWN).text,
			ask_oversize_hint(of->tenant));
	else if (reason == RESIDENCY_STORE)
		guest_refuse_memory(
			g, tenant_index(of), id, WIRE_REFUSED_FULL,
			"%sneither the device nor the store has room for %s more: movable memory "
			"has %s there, and %s in the store%s%s",
			full.text, asked, text_size(r->capacity_bytes, TEXT_DOWN).text,
			text_size(r->budget_bytes, TEXT_DOWN).text, keeper ? "; " : "",
			keeper ? move_hindrance(&keeper->member).text : "");
	else
		guest_refuse_memory(
			g, tenant_index(of), id, WIRE_REFUSED_FULL,
			"%s were asked for at once, and others' memory would have to move first",
			asked);
}
