/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/process/changes.h"

void changes_heal(uintptr_t here)
{
	if (!frames_left(changes_own.entered, here))
		return;
	for (; changes_own.open > 0; changes_own.open--)
		changes_count_ended();
	changes_own.paused = 0;
}
