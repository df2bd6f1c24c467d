/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits that the driver enforces by itself, on the control groups of pods' containers: a second
 * bound beside the guest's, for programs that go past it (decision 185).
 */
#pragma once

#include "node/daemon.h"

/* Does nothing where meted serves no pods, or is told not to (--no-native-limits); says once where
 * the driver, or the machine, has no such limits. */
must_check int native_open(struct daemon *d);
/* A guest has come or left, or a limit has changed: what the driver has follows, soon. */
void native_stirred(struct daemon *d);
void native_close(struct daemon *d);
/* Once the loop has ended. */
void native_free(struct daemon *d);
