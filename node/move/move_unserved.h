/* SPDX-License-Identifier: Apache-2.0 */
/* Guests that had no processor while they were to move memory: decisions/0151. */
#pragma once

#include "node/daemon.h"

/* Takes from the patience with members what their guests waited for a processor. Call it twice a
 * second or so while there are orders, and before patience is judged. */
void move_count_unserved(struct daemon *d, uint64_t now_ns);
