/* SPDX-License-Identifier: Apache-2.0 */
/* The CLI's request for what has happened (node/events.h). */
#pragma once

#include "node/daemon.h"
#include "wire/wire.h"

struct admin;

void admin_events(struct admin *a, uint32_t id, const struct wire_events_ask *said);
