/* SPDX-License-Identifier: Apache-2.0 */
/* Who waits at its gate for who does not make room. */
#pragma once

#include "node/daemon.h"

void move_look_behind(struct daemon *d);
/* Whom its memory waits for, by its number: who is stuck, or for whom it is parked. 0: nobody. */
uint32_t move_behind(const struct tenant_device *of);
