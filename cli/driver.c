/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/driver.h"

#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "cuda/probe.h"
#include "cuda/prototypes.h"

static int own_folder(char ret_folder[PATH_MAX], struct fault *why)
{
	ssize_t n = readlink("/proc/self/exe", ret_folder, PATH_MAX - 1);

	if (n <= 0)
		return fault_set(why, -errno, "/proc/self/exe: %s", strerror(errno));
	ret_folder[n] = '\0';
	*strrchr(ret_folder, '/') = '\0';
	return 0;
}

/* Our parts are where the build leaves them (beside the CLI's folder) or where they
 * are installed. */
static int find_part(const char *const candidates[], char ret_path[PATH_MAX], struct fault *why)
{
	char folder[PATH_MAX];
	int r = own_folder(folder, why);

	if (r < 0)
		return r;
	for (; *candidates; candidates++) {
		char path[2 * PATH_MAX];

		snprintf(path, sizeof(path), "%s/%s", folder, *candidates);
		if (realpath(path, ret_path))
			return 0;
	}
	return fault_set(why, -ENOENT, "%s: not found beside %s: is mete installed whole?",
			 candidates[-1], folder);
}

int driver_program(const char *name, char ret_path[PATH_MAX], struct fault *why)
{
	char beside[64], built[64], installed[64];
	const char *candidates[] = {beside, built, installed, NULL};

	snprintf(beside, sizeof(beside), "%s", name);
	snprintf(built, sizeof(built), "../node/%s", name);
	snprintf(installed, sizeof(installed), "../sbin/%s", name);
	return find_part(candidates, ret_path, why);
}

static int version_of_name(const char *name)
{
	int major, minor, used = 0;

	if (sscanf(name, "%d.%d%n", &major, &minor, &used) != 2 || name[used])
		return 0;
	return major * 1000 + minor * 10;
}

int driver_guest(int version, char ret_folder[PATH_MAX], struct fault *why)
{
	const char *candidates[] = {"../guest", "../lib/mete/guest", NULL};
	char folder[PATH_MAX], best_name[NAME_MAX + 1] = "";
	int best = 0, r = find_part(candidates, folder, why);
	struct dirent *entry;
	DIR *sets;

	if (r < 0)
		return r;
	sets = opendir(folder);
	if (!sets)
		return fault_set(why, -errno, "%s: %s", folder, strerror(errno));
	while ((entry = readdir(sets))) {
		int found = version_of_name(entry->d_name);

		if (found > best && found <= version) {
			best = found;
			snprintf(best_name, sizeof(best_name), "%s", entry->d_name);
		}
	}
	closedir(sets);
	if (!best)
		return fault_set(
			why, -ENOENT,
			"no guest library in %s fits a driver of CUDA %d.%d: it is too old", folder,
			version / 1000, version % 1000 / 10);
	if (snprintf(ret_folder, PATH_MAX, "%s/%s", folder, best_name) >= PATH_MAX)
		return fault_set(why, -ENAMETOOLONG, "%s: path too long", folder);
	return 0;
}

/* Opens a library by the loader's own rules, or in `folder` where one is given. */
static void *open_library(const char *folder, const char *name)
{
	char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s%s%s", folder, *folder ? "/" : "", name);
	return dlopen(path, RTLD_LAZY | RTLD_LOCAL);
}

static int path_of(void *library, char ret_path[PATH_MAX])
{
	struct link_map *map;

	if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || !realpath(map->l_name, ret_path))
		return -ENOENT;
	return 0;
}

/* Our own guest answers to the driver's name: it must not be taken for the driver. */
static bool is_guest(void *library)
{
	api_fn_cuGetProcAddress *look_up =
		(api_fn_cuGetProcAddress *)dlsym(library, "cuGetProcAddress");
	void *answer = NULL;

	return look_up && look_up(PROBE_NAME, &answer, 0, 0) == CUDA_SUCCESS && answer &&
	       strcmp(answer, PROBE_ANSWER) == 0;
}

static int examine(void *library, struct driver *driver, struct fault *why)
{
	int (*get_version)(int *) = (int (*)(int *))dlsym(library, "cuDriverGetVersion");
	char describer[PATH_MAX + 16];
	int status;

	if (path_of(library, driver->cuda) < 0)
		return fault_set(why, -ENOENT, "libcuda.so.1: the loader does not say where it is");
	if (is_guest(library))
		return fault_set(why, -ELOOP,
				 "%s is mete's own guest, not a driver: set METE_DRIVER to the "
				 "driver's folder",
				 driver->cuda);
	if (!get_version)
		return fault_set(why, -EINVAL, "%s has no cuDriverGetVersion: not a CUDA driver",
				 driver->cuda);
	status = get_version(&driver->version);
	if (status != 0)
		return fault_set(why, -EIO, "%s: cuDriverGetVersion answers error %d", driver->cuda,
				 status);
	snprintf(driver->folder, sizeof(driver->folder), "%s", driver->cuda);
	*strrchr(driver->folder, '/') = '\0';
	/* The simulated driver has the program that describes it one folder up. */
	snprintf(describer, sizeof(describer), "%s/../mete-sim", driver->folder);
	driver->simulated = access(describer, X_OK) == 0;
	return 0;
}

int driver_find(struct driver *ret_driver, struct fault *why)
{
	const char *given = getenv("METE_DRIVER");
	struct driver driver = {0};
	void *library = open_library(given ? given : "", "libcuda.so.1"), *nvml;
	int r;

	if (!library)
		return fault_set(why, -ENOENT,
				 "no CUDA driver: %s (install NVIDIA's, or put the folder of the "
				 "simulated one into LD_LIBRARY_PATH)",
				 dlerror());
	r = examine(library, &driver, why);
	if (r < 0)
		return r;
	nvml = open_library(driver.folder, "libnvidia-ml.so.1");
	if (!nvml)
		nvml = open_library("", "libnvidia-ml.so.1");
	if (nvml && (path_of(nvml, driver.nvml) < 0 || is_guest(nvml)))
		driver.nvml[0] = '\0';
	/* Both stay open: a driver does not like to be unloaded, and we end soon. */
	*ret_driver = driver;
	return 0;
}
