/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                sim/machine/share.h
 * Device memory that has been exported: it lives, and is in the device's book, until no process
 * holds it and no descriptor of it is open. A share is in the segment, with the processes that hold
 * it. Its maker pays as long as it holds it; afterwards no process does, as NVML charges an
 * importer nothing (an H100, driver 580.159.04). That change is a single store. The maker's own
 * bytes become a share's with the first export.
 *
 * Every descriptor that is given out is an open file of its own with a shared lock on its first
 * byte: a process that has the file open another way can see whether one is left, even if copied,
 * inherited or in a socket. A process that no longer needs the memory stays a holder, and watches,
 * until none is left. Others check through its /proc/PID/fd; if they may not, it finds out itself.
 *
 * Not solved: a descriptor that outlives all holders is in no book until it is imported; the
 * importer is then refused if the device is full.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/macros.h"
#include "sim/machine/segment.h"
#include "sim/machine/share_book.h"

/* Bytes of the caller's own, taken by device_take(), become a share. DEVICE_FULL: no entry left. */
must_check int share_make(int device, uint64_t bytes, uint64_t *ret_id);

/* Makes the caller a holder, too. If there is no share of that id any more it is made anew, as by
 * device_take(), and *id is changed. */
must_check int share_join(int device, uint64_t bytes, uint64_t *id);

/* The caller no longer holds it; no effect if it did not. */
void share_leave(int device, uint64_t id);

/* The caller now holds it only for descriptors that are open; `fd` is an open file of it, not
 * locked. */
void share_watch(int device, uint64_t id, int fd);
bool share_held(int device, uint64_t id);

/* Locks a descriptor that is to be given out. */
must_check int share_mark(int fd);
