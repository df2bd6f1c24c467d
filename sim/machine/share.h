/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                sim/machine/share.h
 * Device memory that has been exported: it lives, and is in the device's book, until no process
 * holds it and no descriptor of it is open. A share is in the segment, with the processes that hold
 * it. Its maker pays while it holds it; once that ends, in a single store, no process does: NVML
 * charges an importer nothing (an H100, driver 580.159.04). The maker's own bytes become a share's
 * with the first export.
 *
 * Every descriptor that is given out is an open file of its own with a shared lock on its first
 * byte: a process that has the file open another way can see whether any is left, be it copied,
 * inherited or in a socket. A process that needs the memory no more stays a holder, and watches,
 * until there is none. Others look through its /proc/PID/fd; where they may not, it finds out
 * itself.
 *
 * What remains open: a descriptor that outlives all holders is in no book until it is imported; the
 * importer is then refused where the device is full.
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

/* The caller holds the share, too. Where there is none of that id any more it is made anew, as
 * device_take() would, and *id is changed. */
must_check int share_join(int device, uint64_t bytes, uint64_t *id);

/* The caller holds it no more; no effect on what it does not hold. */
void share_leave(int device, uint64_t id);

/* The caller holds it for the sake of descriptors only; `fd` is an open file of it, not locked. */
void share_watch(int device, uint64_t id, int fd);
bool share_held(int device, uint64_t id);

/* Locks a descriptor that is to be given out. */
must_check int share_mark(int fd);
