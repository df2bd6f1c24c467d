/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ids that the kubelet has given to containers, whether these have started or not, from its
 * checkpoint. Allocate does not learn which container the ids are for; this is the only source for
 * containers that have ids but never started.
 */
#pragma once

#include "base/macros.h"

struct plugin;
struct pod;

/* `pod`: NULL if the API server has not reported it (yet). Texts are lent. */
typedef void allocated_found(void *owner, const struct pod *pod, const char *uid, const char *id);

/* Only pods that have not ended. If the checkpoint cannot be read, nothing is known. */
void allocated_each(const struct plugin *p, allocated_found *found, void *owner);
/* Likewise of every resource, also those that others offer, or that had another name. */
void allocated_of_all(const struct plugin *p, allocated_found *found, void *owner);
/* The device that an id names, whole or a replica of it, whatever it is shared out as now. -1: it
 * names none. */
int allocated_device(const struct plugin *p, const char *id);
/* The same for whom it matters that nothing is known: what a static pod has counts also without its
 * mirror, until the kubelet gives something again. -ENOENT: there is no checkpoint; -EINVAL: it
 * cannot be read. */
must_check int allocated_known(const struct plugin *p, allocated_found *found, void *owner);
