/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A moment that has passed, as docker and kubectl have it in --since: how long ago (10m, 1h30m), or
 * which (2026-11-27, 2026-11-27T18:00, with seconds, with a zone). Without a zone it is the local
 * one.
 */
#pragma once

#include <stdint.h>

#include "base/fault.h"

/* Both in ns since 1970. -EINVAL with a sentence. */
must_check int since_read(const char *text, uint64_t now_ns, uint64_t *ret_at_ns,
			  struct fault *why);
