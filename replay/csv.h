/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens the tables of a recorded trace: either as they are, or the file of that name compressed by
 * gzip (as in bench/data). A compressed one is unpacked into an unnamed temporary file.
 */
#pragma once

#include "base/fault.h"

/* The caller closes *ret_file. -ENOENT: neither file exists; -EINVAL: gzip cannot read it. */
must_check int csv_open(const char *path, FILE **ret_file, struct fault *why);
