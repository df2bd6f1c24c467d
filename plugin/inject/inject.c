/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/inject/inject.h"

#include <string.h>

#include "base/log.h"
#include "base/place.h"
#include "cuda/fit.h"
#include "hook/linker.h"
#include "plugin/inject/inject_driver.h"
#include "plugin/inject/inject_edits.h"

#define SIM_FOLDER "/run/mete-sim" /* in a container */

#if defined(__aarch64__)
#define GLIBC_DEBIAN "/usr/lib/aarch64-linux-gnu"
#else
#define GLIBC_DEBIAN "/usr/lib/x86_64-linux-gnu"
#endif

extern char **environ;

/* Needed by every user of any GPU. */
static const char *const nodes[] = {
	"/dev/nvidiactl",
	"/dev/nvidia-uvm",
	"/dev/nvidia-uvm-tools",
	"/dev/nvidia-modeset",
};

/* A driver that runs in a container has them below its own root, others in the machine's /dev. */
static int add_nodes(struct inject_driver *driver, const struct inject_machine *machine,
		     struct inject_edits *edits)
{
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		owned(close) int fd = root_find(&driver->root, nodes[i], ROOT_NO_FOLLOW);
		char host[PATH_MAX];
		struct stat about;
		int r = inject_on_host(machine, nodes[i], host);

		if (r < 0)
			return r;
		if (fd >= 0 && fstat(fd, &about) == 0 && S_ISCHR(about.st_mode))
			r = edits_node(edits, host, nodes[i]);
		else if (stat(nodes[i], &about) == 0 && S_ISCHR(about.st_mode))
			r = edits_node(edits, nodes[i], nodes[i]);
		if (r < 0)
			return r;
	}
	return 0;
}

static int add_settings(struct inject_edits *edits)
{
	static const char prefix[] = "METE_SIM_", folder[] = "METE_SIM_DIR=";

	for (char **variable = environ; *variable; variable++) {
		char name[64];
		size_t n = strcspn(*variable, "=");
		int r;

		if (strncmp(*variable, prefix, sizeof(prefix) - 1) != 0 || n >= sizeof(name) ||
		    !(*variable)[n] || strncmp(*variable, folder, sizeof(folder) - 1) == 0)
			continue;
		memcpy(name, *variable, n);
		name[n] = '\0';
		r = edits_env(edits, name, *variable + n + 1);
		if (r < 0)
			return r;
	}
	return 0;
}

/* The simulated node is a folder that its processes share. */
static int add_simulator(struct inject_edits *edits, struct fault *why)
{
	const char *given = getenv("METE_SIM_DIR");
	char folder[PATH_MAX];
	int r;

	if (given && strlen(given) < sizeof(folder))
		snprintf(folder, sizeof(folder), "%s", given);
	else
		snprintf(folder, sizeof(folder), "/dev/shm/mete-sim-%u", (unsigned)getuid());
	if (access(folder, F_OK) != 0)
		return fault_set(why, -errno, "the simulated node %s: %s", folder, strerror(errno));
	r = edits_mount(edits, folder, SIM_FOLDER, true);
	if (r == 0)
		r = edits_env(edits, "METE_SIM_DIR", SIM_FOLDER);
	if (r == 0)
		r = add_settings(edits);
	return r < 0 ? edits_fault(r, why) : 0;
}

static int add_preload(const struct inject_machine *machine, struct inject_edits *edits)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/ld.so.preload", machine->guest) >= (int)sizeof(path) ||
	    access(path, R_OK) != 0)
		return 0;
	snprintf(path, sizeof(path), "%s/ld.so.preload", machine->host_guest);
	return edits_text(&edits->preload, path);
}

/* The library that has the exports of the driver. */
static int add_guest(const struct inject_machine *machine, int version, struct inject_edits *edits,
		     struct fault *why)
{
	char set[NAME_MAX + 1], path[PATH_MAX];
	int r = fit_guest(machine->guest, version, set, why);

	if (r < 0)
		return r;
	if (snprintf(path, sizeof(path), "%s/%s/libmete.so", machine->guest, set) >=
		    (int)sizeof(path) ||
	    access(path, R_OK) != 0)
		return fault_set(why, -ENOENT,
				 "%s/%s/libmete.so: is the installation of mete complete?",
				 machine->guest, set);
	if (snprintf(path, sizeof(path), "%s/%s/libmete.so", machine->host_guest, set) >=
	    (int)sizeof(path))
		return fault_set(why, -ENAMETOOLONG, "%s: path too long", machine->host_guest);
	r = edits_mount(edits, path, PLACE_GUEST, false);
	if (r == 0)
		r = add_preload(machine, edits);
	if (r == 0 && machine->hook)
		r = edits_text(&edits->hook, machine->hook);
	return r < 0 ? edits_fault(r, why) : 0;
}

/* If it is mounted, a program can call the driver itself and so get past the guest. */
static void hand_out(struct inject_driver *driver, struct inject_handout *ret_handout)
{
	int r = inject_hand_out(driver, ret_handout);

	if (r < 0)
		log_warning("driver.mounted", "reason=%s",
			    log_text("the driver's files cannot be handed out read-only, so each "
				     "container has them by path")
				    .text);
}

int inject_look(const struct inject_machine *machine, struct inject_handout *ret_handout,
		struct inject_edits **ret_edits, struct fault *why)
{
	owned(inject_free) struct inject_edits *edits = calloc(1, sizeof(*edits));
	owned(inject_handout_done) struct inject_handout handout = {{-1, -1}};
	owned(inject_driver_done) struct inject_driver driver = {.root.fd = -1};
	int r;

	if (!edits)
		return edits_fault(-ENOMEM, why);
	r = inject_driver_find(machine, &driver, why);
	if (r < 0)
		return r;
	/* NVIDIA's toolkit would mount its files over ours. */
	r = edits_env(edits, "NVIDIA_VISIBLE_DEVICES", "void");
	if (r == 0)
		r = machine->guest ? add_nodes(&driver, machine, edits) : 0;
	if (r < 0)
		return edits_fault(r, why);
	if (machine->guest)
		r = add_guest(machine, driver.version, edits, why);
	if (r == 0 && ret_handout)
		hand_out(&driver, &handout);
	if (r == 0)
		r = inject_driver_files(
			&driver, handout.fd[WIRE_LIBRARY_CUDA] >= 0 && !machine->mounts_driver,
			machine, edits, why);
	if (r == 0 && driver.simulated)
		r = add_simulator(edits, why);
	if (r < 0)
		return r;
	if (ret_handout) {
		*ret_handout = handout;
		handout = (struct inject_handout){{-1, -1}};
	}
	*ret_edits = take(edits);
	return 0;
}

/* The guest, and the driver's files that have names of their own, where a glibc looks for itself.
 */
static int add_usual_places(const struct inject_edits *edits, struct inject_edits *out)
{
	static const char *const usual[] = {GLIBC_DEBIAN, "/usr/lib64"};
	static const char *const names[] = {"libcuda.so", "libcuda.so.1", "libnvidia-ml.so",
					    "libnvidia-ml.so.1"};
	static const size_t folder = sizeof(PLACE_DRIVER) - 1;
	char to[PATH_MAX];
	int r = 0;

	for (size_t u = 0; u < ARRAY_SIZE(usual); u++) {
		for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++) {
			snprintf(to, sizeof(to), "%s/%s", usual[u], names[i]);
			r = edits_mount(out, edits->mount[0].from, to, false);
		}
		for (uint32_t i = 0; r == 0 && i < edits->mounts; i++) {
			const struct inject_mount *mount = &edits->mount[i];
			const char *name = mount->to + folder + 1;

			if (strncmp(mount->to, PLACE_DRIVER "/", folder + 1) != 0 ||
			    linker_has_stem(name, "libcuda") ||
			    linker_has_stem(name, "libnvidia-ml"))
				continue;
			snprintf(to, sizeof(to), "%s/%s", usual[u], name);
			r = edits_mount(out, mount->from, to, false);
		}
	}
	return r;
}

int inject_without_cdi(const struct inject_edits *edits, const struct inject_slot *slot,
		       struct inject_edits **ret_edits, struct fault *why)
{
	owned(inject_free) struct inject_edits *out = NULL;
	int r;

	if (!edits->preload)
		return fault_set(why, -ENOENT,
				 "no ld.so.preload next to the guest's libraries: is the "
				 "installation of mete complete?");
	r = edits_copy(edits, &out);
	if (r == 0)
		r = edits_slot(out, slot);
	if (r == 0)
		r = edits_mount(out, edits->preload, "/etc/ld.so.preload", false);
	if (r == 0)
		r = add_usual_places(edits, out);
	if (r < 0)
		return edits_fault(r, why);
	free(out->hook);
	out->hook = NULL;
	*ret_edits = take(out);
	return 0;
}
