/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into meted: kills it at one of the steps of a claim, which are renames and removals of
 * files that have the claim in their path. DIES_AT=before:3 or after:3: at the third.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"

exported int rename(const char *from, const char *to);
exported int unlink(const char *path);

static int steps;

static bool is_step(const char *path)
{
	/* The announcement of where files may be is written once, and is no step of a claim. */
	return (strstr(path, "/mete/claims/") && !strstr(path, "/.announced")) ||
	       strstr(path, "-claim_");
}

static void die_if(const char *when, int step)
{
	const char *at = getenv("DIES_AT");
	char own[32];

	snprintf(own, sizeof(own), "%s:%d", when, step);
	if (at && strcmp(at, own) == 0)
		kill(getpid(), SIGKILL);
}

int rename(const char *from, const char *to)
{
	int (*next)(const char *, const char *) =
		(int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
	int step = is_step(to) ? ++steps : 0, r;

	die_if("before", step);
	r = next(from, to);
	die_if("after", step);
	return r;
}

int unlink(const char *path)
{
	int (*next)(const char *) = (int (*)(const char *))dlsym(RTLD_NEXT, "unlink");
	int step = is_step(path) ? ++steps : 0, r;

	die_if("before", step);
	r = next(path);
	die_if("after", step);
	return r;
}
