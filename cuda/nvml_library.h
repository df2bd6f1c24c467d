/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's management library, for programs that open it to ask a few questions and then end. */
#pragma once

#include <limits.h>

#include "base/fault.h"

/* Where it lies in the driver's `folder`, cut short if longer. NULL: the loader finds it. */
void nvml_library_path(const char *folder, char ret_path[PATH_MAX]);

/* Opens it. It is never closed: its threads may still run its code. -ENOENT: it is not there. */
must_check int nvml_library_open(const char *path, void **ret_library, struct fault *why);
