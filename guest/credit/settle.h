/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the daemon to measure the residual of a device again: something was made or freed whose
 * size only a measurement shows.
 */
#pragma once

#include <stdint.h>

/* -1: nothing to tell. */
void settle_device(int device);

/* The same for all devices, if the device is unknown. */
void settle_all(void);

/* The same, if RESIDUAL_ASK had reserved `bytes` for the object that exists now. 0: none. */
void settle_made(int device, uint64_t bytes);
