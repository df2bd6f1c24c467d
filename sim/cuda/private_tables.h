/* SPDX-License-Identifier: Apache-2.0 */
/* The one private table of the simulated driver that has a function, for tests. */
#pragma once

#include <stdint.h>

#include "cuda/types.h"

#define PRIVATE_TABLES_OURS "mete-sim-current"

struct private_tables_ours {
	uint64_t bytes;
	CUresult (*set_current)(CUcontext context);
};
