/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/cli.h"

/* -EINVAL with a sentence: not one of --placement, --time and --memory was given, or an option that
 * means nothing with that one. */
must_check int replay_modes_check(const struct cli_call *call, struct fault *why);
