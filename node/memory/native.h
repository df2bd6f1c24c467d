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

/* What the driver has follows these, soon: */
void native_joined(struct guest *g);
/* Its tenant is still there. */
void native_left(struct guest *g);
/* Its limit has changed, or it has begun or is about to end. */
void native_tenant(struct tenant *t);
/* It runs its tenants at once from now on, or no longer; or it is gone or back. */
void native_device(struct daemon *d, uint32_t index);
/* What the configuration says. Off, as at first: nobody has such a limit. */
void native_switch(struct daemon *d, bool on);

void native_close(struct daemon *d);
/* Once the loop has ended. */
void native_free(struct daemon *d);
