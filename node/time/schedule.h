/* SPDX-License-Identifier: Apache-2.0 */
/* Gates, and whose turn it is. */
#pragma once

#include "node/daemon.h"

must_check int schedule_open(struct daemon *d);
void schedule_close(struct daemon *d);
/* The tenant is new. / Its share has changed. */
void schedule_tenant(struct tenant *t);
void schedule_set(struct tenant *t);
/* The device's tenants run at once, or as usual. */
void schedule_at_once(struct daemon *d, uint32_t device, bool at_once);
/* A guest has come or left. */
void schedule_guests(struct tenant *t);
/* The guest has reconnected: it is busy until it sends IDLE. */
void schedule_joined(struct guest *g);
/* The messages WANTS and IDLE of a guest. */
void schedule_wants(struct guest *g, uint32_t device);
void schedule_idle(struct guest *g, uint32_t device);
