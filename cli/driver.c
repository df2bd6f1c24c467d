/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/driver.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "base/parts.h"
#include "cuda/fit.h"

int driver_program(const char *name, char ret_path[PATH_MAX], struct fault *why)
{
	char beside[64], built[64], installed[64];
	const char *candidates[] = {beside, built, installed, NULL};

	snprintf(beside, sizeof(beside), "%s", name);
	snprintf(built, sizeof(built), "../node/%s", name);
	snprintf(installed, sizeof(installed), "../sbin/%s", name);
	return parts_find(candidates, ret_path, why);
}

int driver_guest(int version, char ret_folder[PATH_MAX], struct fault *why)
{
	const char *candidates[] = {"../guest", "../lib/mete/guest", NULL};
	char folder[PATH_MAX], name[NAME_MAX + 1];
	int r = parts_find(candidates, folder, why);

	if (r == 0)
		r = fit_guest(folder, version, name, why);
	if (r < 0)
		return r;
	if (snprintf(ret_folder, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX)
		return fault_set(why, -ENAMETOOLONG, "%s: path too long", folder);
	return 0;
}

/* Opens a library by the loader's own rules, or in `folder` if one is given. */
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

static int examine(void *library, struct driver *driver, struct fault *why)
{
	int r;

	if (path_of(library, driver->cuda) < 0)
		return fault_set(why, -ENOENT, "libcuda.so.1: the loader does not report its path");
	r = fit_version(library, driver->cuda, &driver->version, why);
	if (r < 0)
		return r;
	snprintf(driver->folder, sizeof(driver->folder), "%s", driver->cuda);
	*strrchr(driver->folder, '/') = '\0';
	driver->simulated = fit_is_simulated(driver->folder);
	return 0;
}

static int say_none(struct fault *why)
{
	const char *candidates[] = {"../sim/lib", "../lib/mete/sim/lib", NULL};
	struct fault none;
	char folder[PATH_MAX];

	best_effort(fault_set(why, 0, "no CUDA driver: %.200s; install NVIDIA's", dlerror()));
	if (parts_find(candidates, folder, &none) == 0)
		best_effort(fault_set(
			&none, 0, ", or try the simulated one: LD_LIBRARY_PATH=%.200s", folder));
	else
		best_effort(fault_set(&none, 0, "%s", ""));
	snprintf(why->text + strlen(why->text), sizeof(why->text) - strlen(why->text), "%s",
		 none.text);
	return -ENOENT;
}

int driver_find(struct driver *ret_driver, struct fault *why)
{
	const char *given = getenv("METE_DRIVER");
	struct driver driver = {0};
	void *library = open_library(given ? given : "", "libcuda.so.1"), *nvml;
	int r;

	if (!library)
		return say_none(why);
	r = examine(library, &driver, why);
	if (r < 0)
		return r;
	nvml = open_library(driver.folder, "libnvidia-ml.so.1");
	if (!nvml)
		nvml = open_library("", "libnvidia-ml.so.1");
	if (nvml && (path_of(nvml, driver.nvml) < 0 || fit_is_guest(nvml)))
		driver.nvml[0] = '\0';
	/* Both stay open: a driver may not survive being unloaded, and we end soon. */
	*ret_driver = driver;
	return 0;
}
