/* SPDX-License-Identifier: Apache-2.0 */
#include "base/place.h"

#include <string.h>
#include <sys/stat.h>

int place_user(char ret_path[PLACE_MAX], struct fault *why)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	const char *temporary = getenv("TMPDIR");
	char path[4096];

	if (runtime && runtime[0] == '/')
		snprintf(path, sizeof(path), "%s/mete", runtime);
	else
		snprintf(path, sizeof(path), "%s/mete-%u",
			 temporary && temporary[0] == '/' ? temporary : "/tmp", (unsigned)getuid());
	if (strlen(path) >= PLACE_MAX)
		return fault_set(why, -ENAMETOOLONG,
				 "%s: too long for a socket's folder (%d bytes at most): set "
				 "XDG_RUNTIME_DIR to a shorter one",
				 path, PLACE_MAX - 1);
	memcpy(ret_path, path, strlen(path) + 1);
	return 0;
}

int place_make(const char *path, struct fault *why)
{
	struct stat there;

	if (mkdir(path, 0700) == 0)
		return 0;
	if (errno != EEXIST)
		return fault_set(why, -errno, "%s: cannot be made: %s", path, strerror(errno));
	/* In a folder that others may write to, somebody else may have been first. */
	if (lstat(path, &there) != 0)
		return fault_set(why, -errno, "%s: %s", path, strerror(errno));
	if (!S_ISDIR(there.st_mode) || there.st_uid != getuid() || (there.st_mode & 077))
		return fault_set(why, -EPERM,
				 "%s: must be a folder of mode 0700 that belongs to user %u", path,
				 (unsigned)getuid());
	return 0;
}
