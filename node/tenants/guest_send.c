/* SPDX-License-Identifier: Apache-2.0 */
#include "node/tenants/guest_send.h"

#include <stdarg.h>

#include "node/daemon.h"
#include "node/events.h"
#include "node/peers/peer.h"

void guest_send(struct guest *g, const struct wire_message *message)
{
	if (g->caller)
		peer_send(&g->caller->peer, message);
}

void guest_done(struct guest *g, uint32_t id, uint64_t value)
{
	if (g->caller)
		peer_done(&g->caller->peer, id, value);
}

void guest_refuse(struct guest *g, uint32_t id, uint32_t code, const char *format, ...)
{
	va_list arguments;

	if (!g->caller)
		return;
	va_start(arguments, format);
	peer_refuse_list(&g->caller->peer, id, code, format, arguments);
	va_end(arguments);
}

void guest_refuse_memory(struct guest *g, uint32_t device, uint32_t id, uint32_t code,
			 const char *format, ...)
{
	char reason[WIRE_TEXT_MAX + 1];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(reason, sizeof(reason), format, arguments);
	va_end(arguments);
	if (!g->complained) {
		log_info("memory.refused", "tenant=%u guest=%u pid=%d reason=%s", g->tenant->id,
			 g->id, (int)g->pid, log_text(reason).text);
		events_at(&g->tenant->device[device], HAPPENED_REFUSED,
			  "process %d was refused memory: %s", (int)g->pid, reason);
	}
	g->complained = true;
	guest_refuse(g, id, code, "%s", reason);
}

void guest_tell_gate(struct guest *g, uint32_t device)
{
	struct wire_message message;
	const struct wire_tenant_device *shown = &g->tenant->shown->device[device];

	/* A guest that is away owes the drain as well: it reads the gates when it is back. */
	g->device[device].owes_drain = shown->gate != WIRE_GATE_OPEN;
	if (!g->caller)
		return;
	wire_begin(&message, WIRE_gate, peer_new_id(&g->caller->peer));
	message.gate.device = device;
	message.gate.state = shown->gate;
	message.gate.epoch = shown->epoch;
	guest_send(g, &message);
}
