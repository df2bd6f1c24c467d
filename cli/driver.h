/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which CUDA driver the programs of this machine would load, and which of our libraries and
 * programs fit it. Looks at files and asks the driver its version; initialises nothing.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>

#include "base/fault.h"

struct driver {
	char cuda[PATH_MAX];   /* libcuda.so.1: absolute, links resolved */
	char folder[PATH_MAX]; /* its folder, for METE_DRIVER */
	char nvml[PATH_MAX];   /* libnvidia-ml.so.1, or "" if there is none */
	int version;	       /* as cuDriverGetVersion gives it: 12090 */
	bool simulated;	       /* the library is mete's simulated driver */
};

/* Finds the driver as a program's dlopen("libcuda.so.1") would, METE_DRIVER first. */
must_check int driver_find(struct driver *ret_driver, struct fault *why);

/* The folder of the guest (libmete.so, and lib/ with the links) whose exports fit a driver of
 * `version`: the newest set that is not newer than it. */
must_check int driver_guest(int version, char ret_folder[PATH_MAX], struct fault *why);

/* Finds another of our programs ("meted"), beside this one or where it is installed. */
must_check int driver_program(const char *name, char ret_path[PATH_MAX], struct fault *why);
