/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much work a tenant may have under way that others would have to wait for: it is bounded by
 * time, not by calls. Pure.
 */
#pragma once

#include "core/turns/turns.h"

/* Of all its processes together. `contended`: another tenant waits. */
uint64_t turns_flight_ns(const struct turns_seat *seat, bool contended);
