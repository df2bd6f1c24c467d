/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/part_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"
#include "sim/machine/settings.h"

/* The driver's numbers (/proc/driver/nvidia-caps/mig-minors): for each GPU 15 GPU instances, for
 * each of these itself and 8 compute instances; the first two numbers belong to no GPU. */
enum { FIRST = 3, INSTANCES = 15, EACH = 9, PATH = SETTINGS_PATH_MAX + 96 };

static void make_folders(char path[PATH], size_t from)
{
	for (char *at = path + from; (at = strchr(at + 1, '/'));) {
		*at = '\0';
		best_effort(mkdir(path, 0755));
		*at = '/';
	}
}

static void write_one(char path[PATH], size_t folder, uint32_t minor)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "DeviceFileMinor: %u\nDeviceFileMode: 292\n", minor);

	make_folders(path, folder);
	owned(close) int fd =
		open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	if (fd >= 0)
		best_effort(write(fd, text, (size_t)n));
}

/* Removes the file, and the folders above it that are then empty. */
static void remove_one(const char *path, size_t folder)
{
	char above[PATH];
	char *end;

	snprintf(above, PATH, "%s", path);
	best_effort(unlink(above));
	while ((end = strrchr(above, '/')) && (size_t)(end - above) > folder) {
		*end = '\0';
		if (rmdir(above) != 0 && errno != ENOENT)
			return;
	}
}

static void set_file(char path[PATH], size_t folder, bool there, uint32_t minor)
{
	if (there)
		write_one(path, folder, minor);
	else
		remove_one(path, folder);
}

void part_files_write(const char *folder, uint32_t gpu, uint32_t instance, bool there,
		      bool complete)
{
	uint32_t minor = FIRST + (gpu * INSTANCES + instance) * EACH;
	char whole[PATH], compute[PATH];

	snprintf(whole, PATH, "%s/proc/driver/nvidia/capabilities/gpu%u/mig/gi%u/access", folder,
		 gpu, instance);
	snprintf(compute, PATH, "%s/proc/driver/nvidia/capabilities/gpu%u/mig/gi%u/ci0/access",
		 folder, gpu, instance);
	/* The inner file first, so that its folder becomes empty. */
	if (!complete)
		set_file(compute, strlen(folder), false, 0);
	set_file(whole, strlen(folder), there, minor);
	if (complete)
		set_file(compute, strlen(folder), true, minor + 1);
}

void part_files_clear(const char *folder)
{
	char path[PATH];

	snprintf(path, PATH, "%s/proc/driver/nvidia/capabilities", folder);
	if (access(path, F_OK) != 0)
		return;
	for (uint32_t gpu = 0; gpu < SETTINGS_DEVICES_MAX; gpu++)
		for (uint32_t instance = 0; instance < INSTANCES; instance++)
			part_files_write(folder, gpu, instance, false, false);
}
