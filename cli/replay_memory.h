/* SPDX-License-Identifier: Apache-2.0 */
/* `mete replay --memory`: whose memory is on a device, on a virtual clock. */
#pragma once

#include "cli/cli.h"

int replay_memory_main(const struct cli_call *call);
