/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens in folders: an inotify instance; or a clock that ticks each second, where none can
 * be had. A user has 128 instances, and root in a container usually shares those of the node's
 * root: it could otherwise keep a service from starting.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"
#include "base/macros.h"

struct notices {
	int fd;	      /* readable when something has happened, or a second is over; the caller's */
	bool polled;  /* it is the clock */
	uint64_t was; /* the files' stamp at the last tick */
};

/* -errno. meted and its plugin each say once in the log that files are looked at. */
must_check int notices_open(struct notices *n);
/* Watches the folder, too. -errno, if it is polled as well. */
must_check int notices_add(const struct notices *n, const char *folder, uint32_t events);
/* If it is polled: instead of reading events. Begins with HASH_BEGIN; add each path that matters.
 */
uint64_t notices_stamp(uint64_t stamp, const char *path);
/* Reads the clock. True: the stamp is another one than at the last tick, or there was none. */
must_check bool notices_ticked(struct notices *n, uint64_t stamp);
