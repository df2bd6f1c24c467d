/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folders in /tmp for tests, which are gone with all that they hold when the program has ended,
 * whether the test passed or not. One at a time.
 */
#pragma once

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/test.h"

static char folder_made[64];
static pid_t folder_owner;

static inline int folder_remove_entry(const char *path, const struct stat *about, int kind,
				      struct FTW *place)
{
	(void)about;
	(void)kind;
	(void)place;
	return remove(path);
}

static inline void folder_remove(const char *folder)
{
	nftw(folder, folder_remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static inline void folder_remove_made(void)
{
	if (folder_made[0] != '\0' && folder_owner == getpid())
		folder_remove(folder_made);
	folder_made[0] = '\0';
}

/* Makes `folder`, "/tmp/...XXXXXX" of at most 63 bytes, and removes the one before it. */
static inline void folder_make(char *folder)
{
	if (folder_owner == 0)
		expect_eq(atexit(folder_remove_made), 0);
	folder_remove_made();
	expect(mkdtemp(folder) != NULL);
	folder_owner = getpid();
	snprintf(folder_made, sizeof(folder_made), "%s", folder);
}
