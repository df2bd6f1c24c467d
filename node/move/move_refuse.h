/* SPDX-License-Identifier: Apache-2.0 */
/* Why movable memory is not granted, in words. */
#pragma once

#include "node/daemon.h"

struct ask;

/* Tells the guest why; `reason` as residency_ask() says it. */
void move_refuse(const struct ask *ask, int reason);
/* Likewise, though others could make room. */
void move_refuse_hindered(const struct ask *ask, const struct residency_member *by);
