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
/* The same for every resource, also those of other plugins, or with a former name. */
void allocated_of_all(const struct plugin *p, allocated_found *found, void *owner);
/* The device of an id, which may name the device or a replica of it, however the device is
 * shared out now. -1: the id names no device. */
int allocated_device(const struct plugin *p, const char *id);
/* The same for callers that must not take a missing record for an empty one. Ids of a static pod
 * count even without its mirror, until the kubelet gives out ids again. -ENOENT: there is no
 * checkpoint; -EINVAL: it cannot be read. */
must_check int allocated_known(const struct plugin *p, allocated_found *found, void *owner);
