/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifies systemd (sd_notify(3)) with one datagram to the socket that NOTIFY_SOCKET names. Does
 * nothing if that is not set or cannot be reached.
 */
#pragma once

#include <stdint.h>

/* "READY=1", "STOPPING=1", "WATCHDOG=1". */
void notify_send(const char *state);

/* Half of the interval in which "WATCHDOG=1" is expected; 0: not expected. */
uint64_t notify_watchdog_ns(void);
