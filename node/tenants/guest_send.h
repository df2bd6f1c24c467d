/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to a guest, over its connection if it has one. */
#pragma once

#include "node/daemon.h"

/* Sends over its connection. While the guest is away, nothing is sent; it states what it holds
 * when it is back. */
void guest_send(struct guest *g, const struct wire_message *message);
void guest_done(struct guest *g, uint32_t id, uint64_t value);
void guest_refuse(struct guest *g, uint32_t id, uint32_t code, const char *format, ...)
	printf_like(4, 5);
/* Memory on its tenant's device: of each guest the first is logged, and an event. */
void guest_refuse_memory(struct guest *g, uint32_t device, uint32_t id, uint32_t code,
			 const char *format, ...) printf_like(5, 6);
void guest_tell_gate(struct guest *g, uint32_t device);
