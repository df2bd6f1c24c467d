/* SPDX-License-Identifier: Apache-2.0 */
/* Events (node/events.h) as JSON objects, for `mete events --json` and the page. */
#pragma once

#include <stdio.h>

#include "wire/wire.h"

void event_write(FILE *out, const struct wire_event_row *event);

/* "2026-11-27T15:40:12.123Z" */
struct event_time {
	char text[64];
};
struct event_time event_time(uint64_t ns);
