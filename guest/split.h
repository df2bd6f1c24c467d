/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large synchronous copies, in pieces while somebody else waits for the device: between two of them
 * the thread may stand at the gate. So a close waits for a piece, and not for gigabytes. Costs
 * nothing until somebody waits for the first time: only then does this module stand between the
 * trampolines and the driver (guest/real.h, real_between). The gate is before it.
 */
#pragma once

/* By the agent, as often as it likes. */
void split_begin(void);
