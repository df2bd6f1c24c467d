/* SPDX-License-Identifier: Apache-2.0 */
/* How guests take part in turns, as their tenant's page says it. */
#pragma once

#include "node/daemon.h"

/* Must its guests say when they are idle, although there are no turns? */
bool pace_listens(const struct tenant_device *at);
/* Its work waits for its own threads at the gate. */
bool pace_is_coupled(const struct tenant_device *at);
/* Tells one guest to read its tenant's page. */
void pace_tell(struct guest *g, uint32_t device);
/* Shows the seat's guests how they take part. `tell`: also sends PACE, as no GATE follows that
 * would tell them. */
void pace_show(struct tenant_device *at, bool tell);
