/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One meted serves one simulated machine: the folder METE_SIM_DIR that it was started with. A
 * program with another one is on another machine, where meted sees nothing.
 */
#pragma once

#include <stdint.h>

#include "base/fault.h"

/* -EXDEV, and the sentence names both nodes. 0: they are one, or what meted's is may not be seen.
 */
must_check int sim_node_check(uint32_t meted_pid, struct fault *why);

/* The same for who has not looked for a driver: where neither says METE_SIM_DIR nothing is looked
 * at, and nothing on a real driver. */
must_check int sim_node_same(uint32_t meted_pid, struct fault *why);
