/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is the system's meted about to come back? After a crash, an upgrade or `systemctl restart` nobody
 * listens in its place for a moment (a second, as its unit says, and its start). Whoever comes then
 * must not get a meted of their own, with a second book for the same devices.
 *
 * Only systemd knows it: what an ended meted leaves behind looks the same when it was stopped for
 * good. It is asked only where no meted was found, and only if it runs this machine.
 */
#pragma once

#include <stdbool.h>

/* Starts `systemctl show` for the unit; false: it is not there, has ended, or is not known. */
bool returning_system_meted(void);

/* Does this output of `systemctl show -p ActiveState -p Job` say that the unit runs or will? */
bool returning_in(const char *shown);
