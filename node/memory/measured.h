/* SPDX-License-Identifier: Apache-2.0 */
/* Handles a measurement that has ended, or takes too long. */
#pragma once

#include "node/daemon.h"

/* Measures the guest, then answers RESIDUAL_CHECK `id`: has its tenant more than it may? */
void measure_check(struct guest_device *at, uint32_t id);
