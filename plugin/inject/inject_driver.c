/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/inject/inject_driver.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>

#include "base/place.h"
#include "cuda/fit.h"
#include "hook/linker.h"
#include "plugin/inject/inject_edits.h"

#if defined(__aarch64__)
#define MULTIARCH "aarch64-linux-gnu"
#else
#define MULTIARCH "x86_64-linux-gnu"
#endif

/* The folders in which distributions and NVIDIA's installers put a driver. The last ones are for
 * GKE, Talos, NixOS and WSL. */
static const char *const folders[] = {
	"/usr/lib/" MULTIARCH,
	"/usr/lib64",
	"/usr/lib/" MULTIARCH "/nvidia/current",
	"/usr/lib64/nvidia",
	"/lib64",
	"/lib/" MULTIARCH,
	"/usr/lib",
	"/lib",
	"/usr/local/nvidia/lib64",
	"/usr/local/glibc/usr/lib",
	"/run/opengl-driver/lib",
	"/usr/lib/wsl/lib",
};

/* Libraries that access a GPU without the CUDA driver API, and libraries that serve these. */
static const char *const others[] = {
	"libnvidia-opencl", "libnvidia-gl",   "libnvidia-egl",	   "libnvidia-fbc",
	"libnvidia-vulkan", "libnvidia-vksc", "libnvidia-wayland", "libnvidia-gtk",
	"libnvidia-ngx",    "libnvidia-tls",  "libnvidia-present", "libnvidia-api",
};

#define OPTIX_WEIGHTS "/usr/share/nvidia/nvoptix.bin"

void inject_driver_done(struct inject_driver *driver)
{
	root_close(&driver->root);
}

int inject_on_host(const struct inject_machine *machine, const char *path, char ret_path[PATH_MAX])
{
	const char *root = machine->host_driver_root ? machine->host_driver_root : "/";
	int n = snprintf(ret_path, PATH_MAX, "%s%s", strcmp(root, "/") == 0 ? "" : root, path);

	return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Sets the release: "570.124.06" from "/usr/lib/libcuda.so.570.124.06". */
static void set_release(struct inject_driver *driver)
{
	const char *mark = strstr(strrchr(driver->real, '/'), ".so.");

	driver->release[0] = '\0';
	if (mark && strchr(mark + 4, '.'))
		snprintf(driver->release, sizeof(driver->release), "%s", mark + 4);
}

/* 1: the folder has no driver. */
static int look_into(struct inject_driver *driver, const char *folder)
{
	char path[PATH_MAX];
	owned(close) int fd = -1;
	int r;

	if (snprintf(path, sizeof(path), "%s/libcuda.so.1", folder) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = root_find(&driver->root, path, ROOT_FOLLOW);
	if (fd < 0)
		return root_is_absent(fd) ? 1 : fd;
	r = root_path(&driver->root, fd, driver->real);
	if (r < 0)
		return r;
	snprintf(driver->folder, sizeof(driver->folder), "%s", folder);
	set_release(driver);
	return 0;
}

static int look_for(struct inject_driver *driver, const char *folder)
{
	int r = 1;

	if (folder)
		return look_into(driver, folder);
	for (size_t i = 0; r == 1 && i < ARRAY_SIZE(folders); i++)
		r = look_into(driver, folders[i]);
	return r;
}

/* The library stays loaded. */
static int ask_version(struct inject_driver *driver, struct fault *why)
{
	char path[2 * PATH_MAX], *slash;
	void *library;
	int r;

	snprintf(path, sizeof(path), "%s%s", driver->root.path, driver->real);
	library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (!library)
		return fault_set(why, -EINVAL, "the driver cannot be loaded: %s", dlerror());
	r = fit_version(library, path, &driver->version, why);
	slash = strrchr(path, '/');
	*slash = '\0';
	driver->simulated = fit_is_simulated(path);
	return r;
}

int inject_driver_find(const struct inject_machine *machine, struct inject_driver *ret_driver,
		       struct fault *why)
{
	owned(inject_driver_done) struct inject_driver driver = {.root.fd = -1};
	int r = root_open(machine->driver_root, &driver.root, why);

	if (r < 0)
		return r;
	r = look_for(&driver, machine->driver_folder);
	if (r == 1)
		return fault_set(why, -ENOENT, "no driver: there is no libcuda.so.1 %s%s below %s",
				 machine->driver_folder ? "in " : "in the usual folders",
				 machine->driver_folder ? machine->driver_folder : "",
				 machine->driver_root);
	if (r < 0)
		return fault_set(why, r, "libcuda.so.1 below %s: %s", machine->driver_root,
				 root_says(r));
	r = ask_version(&driver, why);
	if (r < 0)
		return r;
	*ret_driver = driver;
	driver.root.fd = -1;
	return 0;
}

bool inject_is_driver_name(const char *name)
{
	if (!linker_stem(name))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (strncmp(name, others[i], strlen(others[i])) == 0)
			return false;
	return strncmp(name, "libnvidia-", 10) == 0 || linker_has_stem(name, "libcuda") ||
	       linker_has_stem(name, "libcudadebugger") || linker_has_stem(name, "libnvcuvid") ||
	       linker_has_stem(name, "libnvoptix");
}

struct gathering {
	struct inject_driver *driver;
	bool handed_out;
	const struct inject_machine *machine;
	struct inject_edits *edits;
	const char *folder;
};

bool inject_is_of_release(const struct inject_driver *driver, const char *real)
{
	size_t release = strlen(driver->release), n = strlen(real);

	if (!release)
		return strcmp(strrchr(real, '/'), "/libcuda.so.1") == 0 ||
		       strcmp(strrchr(real, '/'), "/libnvidia-ml.so.1") == 0;
	return n > release + 4 && strcmp(real + n - release, driver->release) == 0 &&
	       memcmp(real + n - release - 4, ".so.", 4) == 0;
}

static bool is_there(const struct inject_edits *edits, const char *to)
{
	for (uint32_t i = 0; i < edits->mounts; i++)
		if (strcmp(edits->mount[i].to, to) == 0)
			return true;
	return false;
}

/* Mounts the file to which `path` below the root leads at `to` in the container. `release`: only if
 * the file belongs to this driver's release. */
static int mount_file(const struct gathering *g, const char *path, const char *to, bool release)
{
	owned(close) int fd = root_find(&g->driver->root, path, ROOT_FOLLOW);
	char real[PATH_MAX], host[PATH_MAX];
	struct stat about;
	int r;

	if (fd < 0)
		return root_is_absent(fd) ? 0 : fd;
	if (fstat(fd, &about) != 0)
		return -errno;
	r = root_path(&g->driver->root, fd, real);
	if (r < 0 || !S_ISREG(about.st_mode) ||
	    (release && !inject_is_of_release(g->driver, real)) || is_there(g->edits, to))
		return r;
	r = inject_on_host(g->machine, real, host);
	return r < 0 ? r : edits_mount(g->edits, host, to, false);
}

static int gather(void *owner, const char *name)
{
	const struct gathering *g = owner;
	char path[PATH_MAX], to[PATH_MAX];
	size_t stem = linker_stem(name);

	if (g->handed_out &&
	    (linker_has_stem(name, "libcuda") || linker_has_stem(name, "libnvidia-ml")))
		return 0;
	/* libx.so, without a version, is only used when programs are linked. */
	if (!inject_is_driver_name(name) || strcmp(name + stem, ".so") == 0 ||
	    snprintf(path, sizeof(path), "%s/%s", g->folder, name) >= (int)sizeof(path))
		return 0;
	snprintf(to, sizeof(to), PLACE_DRIVER "/%s", name);
	return mount_file(g, path, to, true);
}

static int gather_from(struct gathering *g, const char *folder)
{
	owned(close) int fd = root_find(&g->driver->root, folder, ROOT_FOLDER);
	int r;

	if (fd < 0)
		return fd;
	g->folder = folder;
	r = root_list(&g->driver->root, fd, gather, g);
	g->folder = NULL;
	return r;
}

/* Debian's alternatives choose from one folder, and files that have one version at a time are
 * beside it. Both are needed if that folder is named, or if there are no alternatives. */
static int gather_beside(struct gathering *g)
{
	static const char apart[] = "/nvidia/current";
	char folder[PATH_MAX];
	size_t n = strlen(g->driver->folder), tail = strlen(apart);

	if (n <= tail || strcmp(g->driver->folder + n - tail, apart) != 0)
		return 0;
	snprintf(folder, sizeof(folder), "%.*s", (int)(n - tail), g->driver->folder);
	return gather_from(g, folder);
}

/* Beside the folder that has the driver's files. */
static int gather_smi(struct gathering *g, const char *folder)
{
	static const char to[] = "/usr/bin/nvidia-smi";
	const char *const places[] = {g->driver->simulated ? NULL : to, "../nvidia-smi",
				      "../bin/nvidia-smi", "../../bin/nvidia-smi"};
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_SIZE(places) && !is_there(g->edits, to); i++) {
		char path[PATH_MAX];

		if (!places[i] ||
		    snprintf(path, sizeof(path), "%s%s%s", *places[i] == '/' ? "" : folder,
			     *places[i] == '/' ? "" : "/", places[i]) >= (int)sizeof(path))
			continue;
		r = mount_file(g, path, to, false);
	}
	return r;
}

int inject_driver_files(struct inject_driver *driver, bool handed_out,
			const struct inject_machine *machine, struct inject_edits *edits,
			struct fault *why)
{
	struct gathering g = {driver, handed_out, machine, edits, NULL};
	char real_folder[PATH_MAX];
	int r = gather_from(&g, driver->folder);

	/* With Debian's alternatives the real files are in another folder. */
	snprintf(real_folder, sizeof(real_folder), "%s", driver->real);
	*strrchr(real_folder, '/') = '\0';
	if (r == 0 && strcmp(real_folder, driver->folder) != 0)
		r = gather_from(&g, *real_folder ? real_folder : "/");
	if (r == 0)
		r = gather_beside(&g);
	/* OptiX reads the weights of its denoiser there. */
	if (r == 0)
		r = mount_file(&g, OPTIX_WEIGHTS, OPTIX_WEIGHTS, false);
	if (r == 0)
		r = gather_smi(&g, real_folder);
	if (r == 0 && !handed_out && !is_there(edits, PLACE_DRIVER "/libcuda.so.1"))
		return fault_set(why, -EINVAL, "%s: its libcuda.so.1 is not of release %s",
				 driver->folder, driver->release);
	if (r == -E2BIG || r == -ENOMEM)
		return edits_fault(r, why);
	return r < 0 ? fault_set(why, r, "the driver's files in %s: %s", driver->folder,
				 root_says(r))
		     : 0;
}
