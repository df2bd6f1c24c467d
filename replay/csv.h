/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the tables of a recorded trace: as they are, or compressed by gzip beside that name (as
 * bench/data keeps them), which is then unpacked into a file without a name.
 */
#pragma once

#include "base/fault.h"

/* The caller closes *ret_file. -ENOENT where neither is there; -EINVAL: gzip cannot read it. */
must_check int csv_open(const char *path, FILE **ret_file, struct fault *why);
