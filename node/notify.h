/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What systemd wants to hear (sd_notify(3)): one datagram to the socket that NOTIFY_SOCKET names.
 * Nothing happens where it is not set, or cannot be reached.
 */
#pragma once

#include <stdint.h>

/* "READY=1", "STOPPING=1", "WATCHDOG=1". */
void notify_send(const char *state);

/* How often "WATCHDOG=1" is expected, halved; 0: not at all. */
uint64_t notify_watchdog_ns(void);
