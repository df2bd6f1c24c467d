/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants that wait for memory for long, hang or are stuck: an event tells it once, and one tells
 * when that is over; of pods' tenants the Kubernetes part is told, too. Only tenants of which
 * waits_look() (node/upcalls.h) said that something may have begun are looked at, by one timer,
 * which runs only while there are any.
 */
#pragma once

#include "node/daemon.h"
#include "plugin/host.h"

must_check int waits_open(struct daemon *d);
/* Who is told of pods' tenants from now on; NULL: nobody. */
void waits_tell(struct daemon *d, host_waits *told, void *owner);
void waits_close(struct daemon *d);
