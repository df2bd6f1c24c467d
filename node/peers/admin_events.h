/* SPDX-License-Identifier: Apache-2.0 */
/* The CLI's requests for what has happened (node/events.h), and for what will. */
#pragma once

#include "node/daemon.h"
#include "wire/wire.h"

struct admin;

/* False: it is no such request. */
bool admin_events_asked(struct admin *a, const struct wire_message *m);
/* It has gone. */
void admin_stop_awaiting(struct admin *a);
