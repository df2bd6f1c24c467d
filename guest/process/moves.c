/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/process/moves.h"

void moves_heal(uintptr_t here)
{
	if (!frames_left(moves_own.entered, here))
		return;
	for (; moves_own.open > 0; moves_own.open--)
		moves_count_ended();
	moves_own.paused = 0;
}
