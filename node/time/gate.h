/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants' gates: see the top of gate.c. */
#pragma once

#include "node/daemon.h"

/* The timer that all gates have in common. */
must_check int gates_open(struct daemon *d);
void gates_close(struct daemon *d);
/* Why it is not open: core/gate.h, of the daemon's facts. */
uint32_t tenant_gate_reasons(const struct tenant_device *at);
/* Opens or closes the gate accordingly. Call it after a reason has come or gone, and when a guest
 * has drained or left: a close may have waited for that. */
void tenant_gate_apply(struct tenant *t, uint32_t device);
/* Memory that was out has returned: opens the gate if that kept it closed. */
void tenant_gate_open_late(struct tenant *t, uint32_t device);
/* No process has to state any more what memory it has out: likewise, all gates. */
void tenant_gates_open_late(struct tenant *t);
/* The test verb: changes the gate. `wait` is answered with DONE when every guest has drained. It is
 * refused if one cannot drain; the gate is then open again, and the tenant is coupled. */
void tenant_gate(struct tenant *t, uint32_t device, bool open, const struct gate_wait *wait);
/* An admin connection is gone: its pending answers are dropped. */
void tenant_forget_peer(struct tenant *t, const struct peer *peer);
