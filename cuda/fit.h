/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of our libraries stands in a driver's place: the one that exports what that driver exports.
 * Asks a loaded driver its version; loads and initialises nothing.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "base/fault.h"

/* Our own guest answers to the driver's name: it must not be taken for the driver. */
bool fit_is_guest(void *library);

/* The version of a loaded libcuda.so.1, as cuDriverGetVersion gives it: 12090. -ELOOP: it is our
 * guest. `path`: what the sentence calls it. */
must_check int fit_version(void *library, const char *path, int *ret_version, struct fault *why);

/* Does the program that describes the simulated driver lie one folder above this one? */
bool fit_is_simulated(const char *driver_folder);

/* `sets` holds a folder per export set ("12.9"). The name of the newest one that is not newer than
 * `version`; -ENOENT: the driver is too old. */
must_check int fit_guest(const char *sets, int version, char ret_name[NAME_MAX + 1],
			 struct fault *why);
