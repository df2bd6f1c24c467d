/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/fit.h"

#include <dirent.h>
#include <dlfcn.h>
#include <string.h>

#include "cuda/probe.h"
#include "cuda/prototypes.h"

bool fit_is_guest(void *library)
{
	api_fn_cuGetProcAddress *look_up =
		(api_fn_cuGetProcAddress *)dlsym(library, "cuGetProcAddress");
	void *answer = NULL;

	return look_up && look_up(PROBE_NAME, &answer, 0, 0) == CUDA_SUCCESS && answer &&
	       strcmp(answer, PROBE_ANSWER) == 0;
}

int fit_version(void *library, const char *path, int *ret_version, struct fault *why)
{
	int (*get_version)(int *) = (int (*)(int *))dlsym(library, "cuDriverGetVersion");
	int status;

	if (fit_is_guest(library))
		return fault_set(why, -ELOOP,
				 "%s is mete's own guest, not a driver: set METE_DRIVER to the "
				 "driver's folder",
				 path);
	if (!get_version)
		return fault_set(why, -EINVAL, "%s has no cuDriverGetVersion: not a CUDA driver",
				 path);
	status = get_version(ret_version);
	if (status != 0)
		return fault_set(why, -EIO, "%s: cuDriverGetVersion answers error %d", path,
				 status);
	return 0;
}

bool fit_is_simulated(const char *driver_folder)
{
	char describer[PATH_MAX + 16];

	snprintf(describer, sizeof(describer), "%s/../mete-sim", driver_folder);
	return access(describer, X_OK) == 0;
}

static int version_of_name(const char *name)
{
	int major, minor, used = 0;

	if (sscanf(name, "%d.%d%n", &major, &minor, &used) != 2 || name[used])
		return 0;
	return major * 1000 + minor * 10;
}

int fit_guest(const char *sets, int version, char ret_name[NAME_MAX + 1], struct fault *why)
{
	struct dirent *entry;
	DIR *folder = opendir(sets);
	int best = 0;

	if (!folder)
		return fault_set(why, -errno, "%s: %s", sets, strerror(errno));
	while ((entry = readdir(folder))) {
		int found = version_of_name(entry->d_name);

		if (found > best && found <= version) {
			best = found;
			snprintf(ret_name, NAME_MAX + 1, "%s", entry->d_name);
		}
	}
	closedir(folder);
	if (!best)
		return fault_set(
			why, -ENOENT,
			"no guest library in %s fits a driver of CUDA %d.%d: it is too old", sets,
			version / 1000, version % 1000 / 10);
	return 0;
}
