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

int place_check(const char *path, uid_t owner, unsigned mode, struct fault *why)
{
	struct stat there;

	if (lstat(path, &there) != 0)
		return errno == ENOENT || errno == ENOTDIR
			       ? PLACE_ABSENT
			       : fault_set(why, -errno, "%s: %s", path, strerror(errno));
	if (S_ISDIR(there.st_mode) && there.st_uid == owner && !(there.st_mode & 0777 & ~mode))
		return 0;
	return fault_set(why, -EPERM,
			 "%s: must be a folder of mode %04o that belongs to user %u: remove it, or "
			 "find out who made it",
			 path, mode, (unsigned)owner);
}

int place_make(const char *path, unsigned mode, struct fault *why)
{
	int r;

	if (mkdir(path, mode) != 0) {
		if (errno != EEXIST)
			return fault_set(why, -errno, "%s: cannot be made: %s", path,
					 strerror(errno));
		/* In a folder that others may write to, another user may have been first. */
		r = place_check(path, getuid(), mode, why);
		if (r != 0)
			return r < 0 ? r : fault_set(why, -ENOENT, "%s: it has disappeared", path);
	}
	/* An older folder, or the umask, may be more restrictive. It is ours: nobody can have
	 * replaced it with a link if the parent folder is root's, ours or sticky. */
	if (mode != PLACE_PRIVATE && chmod(path, mode) != 0)
		return fault_set(why, -errno, "%s: %s", path, strerror(errno));
	return 0;
}
