/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of options as core/share reads them, the same in every verb, and one sentence if a value
 * is not accepted. Nothing changes if the option was not given.
 */
#pragma once

#include "cli/cli.h"
#include "core/share/share.h"

/* Thousandths from `least` to `most` of something: 25%, 250/1000, 0.25. */
must_check int values_part(const struct cli_call *call, const char *option, uint32_t least,
			   uint32_t most, uint32_t *ret_milli, struct fault *why);

/* A time from `least` to `most` ns: 100us, 5ms, 10s, 15m, 1h, 1d. */
must_check int values_time(const struct cli_call *call, const char *option, uint64_t least,
			   uint64_t most, uint64_t *ret_ns, struct fault *why);

/* The same, but a plain number means seconds, as in watch(1). */
must_check int values_seconds(const struct cli_call *call, const char *option, uint64_t least,
			      uint64_t most, uint64_t *ret_ns, struct fault *why);

/* Bytes, or thousandths of a device: 20G, 25%. */
must_check int values_amount(const struct cli_call *call, const char *option,
			     struct share_amount *ret_amount, struct fault *why);

/* A field of a share; `typed` is what the person calls it: "--on-daemon-loss". */
must_check int values_field(const char *typed, const char *key, const char *value,
			    struct share *share, struct fault *why);
