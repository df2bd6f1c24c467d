/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                  sim/cuda/lz4.h
 * Unpacks one LZ4 block, as fat binaries hold PTX. Pure; any bytes give an outcome.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"

/* False unless the input is well formed and gives exactly out_bytes. What was written by then is
 * within the output. */
must_check bool lz4_unpack(const void *in, size_t in_bytes, void *out, size_t out_bytes);
