/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods' tenants that wait for memory for long, hang or are stuck: the Kubernetes part is told once,
 * and once when that is over. Only tenants of which waits_look() (node/upcalls.h) said that
 * something may have begun are looked at, by one timer, which runs only while there are any.
 */
#pragma once

#include "node/daemon.h"
#include "plugin/host.h"

/* From now on. */
must_check int waits_open(struct daemon *d, host_waits *told, void *owner);
void waits_close(struct daemon *d);
