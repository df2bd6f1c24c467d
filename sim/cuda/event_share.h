/* SPDX-License-Identifier: Apache-2.0 */
/*                                                         sim/cuda/event_share.h
 * The page that processes share of an event (CU_EVENT_INTERPROCESS): how often it was recorded, by
 * which process last, and up to which record the work is done. Records have numbers, their tickets,
 * in the order in which they were requested; a wait for one also waits for those before it, as with
 * a counter in a GPU's memory.
 *
 * The record of a process that has died counts as reached, since its work is gone. That is our
 * choice: with an H100's driver (580.159.04) it was not reached in 38 s. Pages are found by the
 * descriptor of the process that made the event, as in sim/cuda/ipc.c.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macros.h"

struct event_share;
struct stream_set;

/* One reference, for the caller. NULL: no memory, or no descriptor. */
struct event_share *event_share_new(void);

/* An event of another process. NULL: it does not exist, or the handle is of no event. */
struct event_share *event_share_open(pid_t pid, int fd);
struct event_share *event_share_ref(struct event_share *share);
void event_share_unref(struct event_share *share); /* NULL is fine */
int event_share_fd(const struct event_share *share);

/* A new record's ticket, from 1. */
uint64_t event_share_issue(struct event_share *share);
uint64_t event_share_last(const struct event_share *share); /* 0: never recorded */

void event_share_reach(struct event_share *share, uint64_t ticket, uint64_t time_ns);

/* *ret_time_ns: the modelled time of the last one that was reached. */
bool event_share_reached(struct event_share *share, uint64_t ticket, uint64_t *ret_time_ns);

/* False: given up because the waiter's context is ending; without a waiter the wait has no end. */
bool event_share_wait(struct event_share *share, uint64_t ticket, const struct stream_set *waiter,
		      uint64_t *ret_time_ns);
