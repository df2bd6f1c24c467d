/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is the system's meted about to come back? After a crash, an upgrade or `systemctl restart` nobody
 * listens in its place for a moment (a second, as its unit says, and its start). A user who comes
 * then must not get a meted of their own, with a second ledger for the same devices.
 *
 * Only systemd knows: an ended meted leaves the same files behind whether it was stopped for good
 * or not. systemd is asked only if no meted was found, and if it is the machine's init.
 */
#pragma once

#include <stdbool.h>

/* Starts `systemctl show` for the unit; false: it is not there, has ended, or is not known. */
bool returning_system_meted(void);

/* Does this output of `systemctl show -p ActiveState -p Job` say that the unit runs or will? */
bool returning_in(const char *shown);
