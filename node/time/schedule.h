/* SPDX-License-Identifier: Apache-2.0 */
/* Gates, and whose turn it is. */
#pragma once

#include "node/daemon.h"

/* gate.c */
must_check int gate_open(struct daemon *d);
void gate_close(struct daemon *d);
/* Why it is not open: core/gate.h, of the daemon's facts. */
uint32_t tenant_gate_reasons(const struct tenant_device *at);
/* Opens or closes the gate accordingly. Call it after a reason has come or gone, and when a guest
 * has drained or left: a close may have waited for that. */
void tenant_gate_apply(struct tenant *t, uint32_t device);
/* Memory that was out has returned: opens the gate if that kept it closed. */
void tenant_gate_open_late(struct tenant *t, uint32_t device);
/* Nobody has to say any more what it has out: likewise, all of them. */
void tenant_gates_open_late(struct tenant *t);
/* The test verb: changes the gate. `wait` is answered with DONE when every guest has drained. It is
 * refused if one cannot drain; the gate is then open again, and the tenant is coupled. */
void tenant_gate(struct tenant *t, uint32_t device, bool open, const struct gate_wait *wait);
/* An admin connection is gone: its pending answers are dropped. */
void tenant_forget_peer(struct tenant *t, const struct peer *peer);

/* schedule.c */
must_check int schedule_open(struct daemon *d);
void schedule_close(struct daemon *d);
/* The tenant is new. / Its share has changed. */
void schedule_tenant(struct tenant *t);
void schedule_set(struct tenant *t);
/* A guest has come or left. */
void schedule_guests(struct tenant *t);
/* The guest has reconnected: it is busy until it sends IDLE. */
void schedule_joined(struct guest *g);
/* The messages WANTS and IDLE of a guest. */
void schedule_wants(struct guest *g, uint32_t device);
void schedule_idle(struct guest *g, uint32_t device);
/* Performs all the actions that turns and residency ask for. Called after every event. */
void schedule_pump(struct daemon *d);
/* The clock of turns. */
uint64_t schedule_now(const struct daemon *d);
/* Whether its guests must report when they are idle may have changed. / Its guests do not move
 * memory as they were told. */
void schedule_listen(struct tenant_device *at, uint64_t now);
void schedule_stuck(struct tenant_device *at);
/* Its work waits for its own threads at the gate. */
bool schedule_is_coupled(const struct tenant_device *at);
/* Is one of its guests busy on the device, according to their messages? */
bool schedule_is_busy(const struct tenant_device *at);
/* What `mete ps` shows of its time. */
void schedule_row(struct tenant_device *at, struct wire_tenant_row *ret_row);
/* Every guest has acknowledged that the gate is closed. */
void schedule_drained(struct tenant_device *at);
