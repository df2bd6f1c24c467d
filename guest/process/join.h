/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining. The first relevant CUDA call (cuInit, an allocation, a launch) opens the driver and
 * starts the parts, which connect to the tenant's daemon and map the two pages. Later calls read
 * one word. A child of fork() forgets everything and joins again on its first call.
 */
#pragma once

#include "base/macros.h"
#include "cuda/types.h"
#include "guest/process/state.h"

/* Joins on first use. 0, or the CUDA error that the caller must answer. A call from inside
 * joining itself gets 0: the driver's own calls during its start are passed through. */
must_check CUresult state_ready(void);

/* cuInit asks again after a refusal. */
void state_retry(void);

/* Called by cuInit before the driver's: from now on an unnoticed copy of this process would use
 * the parent's driver, see join.c. */
void state_driver_begins(void);
