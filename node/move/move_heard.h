/* SPDX-License-Identifier: Apache-2.0 */
/* Guests' reports of their orders. */
#pragma once

#include "node/daemon.h"

void move_heard(struct guest *g, uint32_t id, const struct wire_moved *said);
