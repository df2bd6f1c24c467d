/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `mete --relay`: passes frames between standard input and output and this machine's meted, for a
 * mete elsewhere (cli/remote.h). It answers requests for the boards' own figures itself, from NVML.
 */
#pragma once

/* The exit status. */
int cli_relay(void);
