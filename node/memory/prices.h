/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates what a context takes: see the top of prices.c. */
#pragma once

#include "node/daemon.h"

must_check uint64_t prices_context(struct daemon *d, const struct guest_device *at);
/* The least that a context takes on a device with any driver: a smaller limit is useless. */
must_check uint64_t prices_least(const struct daemon *d, uint32_t device);
void prices_learn(struct daemon *d, const struct guest_device *at, uint64_t bytes);
