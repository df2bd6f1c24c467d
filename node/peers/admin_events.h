/* SPDX-License-Identifier: Apache-2.0 */
/* The CLI's requests for what has happened (node/events.h), and for what will. */
#pragma once

#include "node/daemon.h"
#include "wire/wire.h"

struct admin;

void admin_events(struct admin *a, uint32_t id, uint64_t after);
/* The same, once there is one. */
void admin_events_await(struct admin *a, uint32_t id, uint64_t after);
/* It has gone. */
void admin_stop_awaiting(struct admin *a);
/* There is one: answers those who wait. */
void admin_events_happened(struct daemon *d);
