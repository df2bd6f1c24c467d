/* SPDX-License-Identifier: Apache-2.0 */
/* Asks for segments that wait, in each device's line, until others have returned what they do not
 * need of the store. */
#pragma once

#include "node/daemon.h"

/* False: there is nothing to wait for. */
bool move_wait_for(struct guest_device *at, uint32_t id, uint64_t bytes);
/* The first in a device's line gets the cleared room. */
void move_waits_serve(struct move_part *part);
/* Refuses asks that have waited for long enough, or in vain. True: others still wait. */
bool move_waits_end(struct move_part *part, uint64_t now_ns);
/* meted did not run for so long. */
void move_waits_lost(struct daemon *d, uint64_t ns);
/* Nobody will hear what becomes of this guest's. */
void move_waits_away(struct guest_device *at);
