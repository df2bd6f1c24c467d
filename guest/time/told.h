/* SPDX-License-Identifier: Apache-2.0 */
/* What the daemon has told of others who want a device. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "guest/process/state.h"

/* `device`: the driver's number of it. */
static inline bool told_contended(int device, enum wire_contended bit)
{
	uint32_t w = atomic_load(&state.device[device].wire_index);

	return __atomic_load_n(&guest_tenant_page.turns[w].contended, __ATOMIC_RELAXED) & bit;
}
