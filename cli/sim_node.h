/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One meted serves one simulated machine: the folder METE_SIM_DIR that it was started with. A
 * program with another one is on another machine, where meted sees nothing.
 */
#pragma once

#include <stdint.h>

#include "base/fault.h"

/* -EXDEV, and the sentence names both nodes. 0: they are the same, or meted's cannot be read. */
must_check int sim_node_check(uint32_t meted_pid, struct fault *why);

/* The same for a caller that has not searched for a driver. Compares only if meted or the caller
 * has METE_SIM_DIR, and the driver is the simulated one. */
must_check int sim_node_same(uint32_t meted_pid, struct fault *why);
