/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A simulated node that nobody has used, for tests of the simulator's lower half: METE_SIM_DIR is a
 * new folder, and is removed with what the segment leaves there.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/test.h"

static inline void sim_folder_make(void)
{
	char folder[] = "/tmp/mete-sim-XXXXXX";

	expect(mkdtemp(folder) != NULL);
	setenv("METE_SIM_DIR", folder, 1);
}

/* A process that has joined leaves the segment first. */
static inline void sim_folder_remove(void)
{
	static const char *const names[] = {"segment", "lock"};
	const char *folder = getenv("METE_SIM_DIR");
	char path[128];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		unlink(path);
	}
	rmdir(folder);
}
