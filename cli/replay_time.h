/* SPDX-License-Identifier: Apache-2.0 */
/* `mete replay --time`: who has a device's time, on a virtual clock. */
#pragma once

#include "cli/cli.h"

int replay_time_main(const struct cli_call *call);
