/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/nvidia/mig_files.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

enum { TEXT_MAX = 4096, MINOR_MAX = 1 << 20 };

int mig_files_minor(const char *text, unsigned *ret_minor)
{
	static const char key[] = "DeviceFileMinor:";
	const char *at = text;
	unsigned long minor;
	char *end;

	/* The key must be at the beginning of a line, because another key may end in it. */
	while ((at = strstr(at, key)) && at != text && at[-1] != '\n')
		at++;
	if (!at)
		return -EINVAL;
	at += sizeof(key) - 1;
	at += strspn(at, " \t");
	if (*at < '0' || *at > '9')
		return -EINVAL;
	minor = strtoul(at, &end, 10);
	if (minor > MINOR_MAX || (*end && *end != '\n' && *end != ' '))
		return -EINVAL;
	*ret_minor = (unsigned)minor;
	return 0;
}

static int find_one(const char *path, char ret_file[MIG_FILE])
{
	owned(free) char *text = NULL;
	unsigned minor;
	size_t size;
	int r = file_slurp(path, TEXT_MAX, &text, &size);

	if (r == 0)
		r = mig_files_minor(text, &minor);
	if (r == 0)
		snprintf(ret_file, MIG_FILE, "/dev/nvidia-caps/nvidia-cap%u", minor);
	return r;
}

int mig_files_find(const char *root, int minor, int gpu_instance, int compute_instance,
		   char ret_files[2][MIG_FILE])
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/proc/driver/nvidia/capabilities/gpu%d/mig/gi%d",
			 strcmp(root, "/") == 0 ? "" : root, minor, gpu_instance);
	int r;

	if (n >= PATH_MAX - 32)
		return -ENAMETOOLONG;
	snprintf(path + n, sizeof(path) - (size_t)n, "/access");
	r = find_one(path, ret_files[0]);
	if (r < 0)
		return r;
	snprintf(path + n, sizeof(path) - (size_t)n, "/ci%d/access", compute_instance);
	return find_one(path, ret_files[1]);
}
