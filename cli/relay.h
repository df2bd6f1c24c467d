/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `mete --relay`: passes frames between standard input and output and this machine's meted, for a
 * mete elsewhere (cli/remote.h). What boards say of themselves it answers itself, as `mete top`
 * asks NVML and not meted.
 */
#pragma once

/* The exit status. */
int cli_relay(void);
