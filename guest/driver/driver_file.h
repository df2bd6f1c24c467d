/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the driver's own libraries, in this order:
 *
 *  1. /usr/lib/mete/driver/ (a container whose node mounts them);
 *  2. meted hands them out as descriptors (a container with a guest.sock): no path leads to them,
 * so that neither LD_PRELOAD nor dlopen() can name the driver that has no limit;
 *  3. METE_DRIVER (a directory, or the path of libcuda.so.1; absolute), which `mete run` sets.
 *
 * In a container (1 or 2) the environment is ignored.
 */
#pragma once

#include "base/macros.h"
#include "wire/wire.h"

struct driver_file {
	char path[4096]; /* for dlopen() */
	int fd;		 /* + 1; 0: none */
};

/* 0; -1 after reporting what is wrong. May wait for a meted that is being restarted. */
must_check int driver_file_find(enum wire_library library, struct driver_file *ret_file);

/* To be called after it was loaded. */
void driver_file_done(struct driver_file *file);
