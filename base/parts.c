/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parts.h"

#include <string.h>

static int own_folder(char ret_folder[PATH_MAX], struct fault *why)
{
	ssize_t n = readlink("/proc/self/exe", ret_folder, PATH_MAX - 1);

	if (n <= 0)
		return fault_set(why, -errno, "/proc/self/exe: %s", strerror(errno));
	ret_folder[n] = '\0';
	*strrchr(ret_folder, '/') = '\0';
	return 0;
}

int parts_find(const char *const places[], char ret_path[PATH_MAX], struct fault *why)
{
	char folder[PATH_MAX];
	int r = own_folder(folder, why);

	if (r < 0)
		return r;
	for (; *places; places++) {
		char path[2 * PATH_MAX];

		snprintf(path, sizeof(path), "%s/%s", folder, *places);
		if (realpath(path, ret_path))
			return 0;
	}
	return fault_set(why, -ENOENT,
			 "%s: not found next to %s: is the installation of mete complete?",
			 places[-1], folder);
}
