/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the daemon to measure again what the driver holds of a device beside what is charged (the
 * residual): something came or went whose size only a measurement shows.
 */
#pragma once

#include <stdint.h>

/* -1: nothing to tell. */
void settle_device(int device);

/* The same for all devices, if the device is unknown. */
void settle_all(void);

/* The same, where `bytes` were reserved for what is there now, by RESIDUAL_ASK. 0: none. */
void settle_made(int device, uint64_t bytes);
