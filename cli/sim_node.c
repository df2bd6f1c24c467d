/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sim_node.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/driver.h"

static const char variable[] = "METE_SIM_DIR=";

/* The folder, with links resolved if it exists. */
static void resolve(const char *given, uid_t uid, char ret_folder[PATH_MAX])
{
	char usual[64];

	snprintf(usual, sizeof(usual), "/dev/shm/mete-sim-%u", (unsigned)uid);
	if (!given || !*given)
		given = usual;
	if (!realpath(given, ret_folder))
		snprintf(ret_folder, PATH_MAX, "%s", given);
}

/* METE_SIM_DIR of a process, and the process's user. -errno: it cannot be read. */
static int read_environment(uint32_t pid, char **ret_environment, const char **ret_given,
			    uid_t *ret_uid)
{
	struct stat process;
	size_t size = 0;
	char path[64];
	int r;

	snprintf(path, sizeof(path), "/proc/%u/environ", pid);
	if (stat(path, &process) != 0)
		return -errno;
	r = file_slurp(path, 1 << 20, ret_environment, &size);
	if (r < 0)
		return r;
	/* The environment of a process that is ending is empty. */
	if (size == 0)
		return -ESRCH;
	*ret_uid = process.st_uid;
	*ret_given = NULL;
	for (const char *at = *ret_environment; at < *ret_environment + size; at += strlen(at) + 1)
		if (strncmp(at, variable, strlen(variable)) == 0)
			*ret_given = at + strlen(variable);
	return 0;
}

int sim_node_same(uint32_t meted_pid, struct fault *why)
{
	owned(free) char *environment = NULL;
	const char *given = NULL;
	struct driver driver = {0};
	struct fault ignored;
	uid_t uid = 0;

	if (read_environment(meted_pid, &environment, &given, &uid) < 0)
		return 0;
	if ((!given && !getenv("METE_SIM_DIR")) || driver_find(&driver, &ignored) < 0 ||
	    !driver.simulated)
		return 0;
	return sim_node_check(meted_pid, why);
}

int sim_node_check(uint32_t meted_pid, struct fault *why)
{
	char ours[PATH_MAX], its[PATH_MAX];
	owned(free) char *environment = NULL;
	const char *given = NULL;
	uid_t uid = 0;

	if (read_environment(meted_pid, &environment, &given, &uid) < 0)
		return 0;
	resolve(given, uid, its);
	resolve(getenv("METE_SIM_DIR"), getuid(), ours);
	if (strcmp(its, ours) == 0)
		return 0;
	return fault_set(
		why, -EXDEV,
		"meted (pid %u) runs on the simulated node %.80s, but this is %.80s: use that node "
		"(METE_SIM_DIR), or give this one its own meted (XDG_RUNTIME_DIR)",
		meted_pid, its, ours);
}
