/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits large synchronous copies into pieces while another tenant waits for the device. Between
 * two pieces the thread may wait at the gate, so a close waits for a piece and not for gigabytes.
 * It costs nothing until a tenant waits for the first time: only then is this module inserted
 * between the trampolines and the driver, after the gate (guest/driver/real.h, real_between).
 */
#pragma once

/* Called by the agent, any number of times. */
void split_begin(void);
