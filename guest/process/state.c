/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/process/state.h"

struct state state;

int state_of_wire(uint32_t wire_device)
{
	uint32_t devices = atomic_load(&state.devices);

	for (uint32_t i = 0; i < devices; i++)
		if (!atomic_load(&state.device[i].gone) &&
		    atomic_load(&state.device[i].wire_index) == wire_device)
			return (int)i;
	return -1;
}
