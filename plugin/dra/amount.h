/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads amounts of the API server as it computes with them: "20Gi", "4k", "25", "1.5", "1e3", in
 * whole units, rounded up. It writes them in a form of its own ("1024Mi" comes back as "1Gi"), so
 * amounts are compared as numbers. Pure.
 */
#pragma once

#include "base/macros.h"

/* -EINVAL: it is not an amount, it is below zero, or it has more than 63 bits. */
must_check int amount_read(const char *text, uint64_t *ret_value);
