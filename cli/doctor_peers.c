/* SPDX-License-Identifier: Apache-2.0 */
/* mete doctor: the problems that users of any GPU sharing report most often. docs/doctor.md has the
 * threads. */
#include <ctype.h>
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/file.h"
#include "cli/doctor.h"
#include "cli/doctor_node.h"

enum { PRELOAD_MOST = 64 << 10 };

/* ---- what a program sees --------------------------------------------------------------------- */

/* CUDA sees only the devices that the list names before the first that does not exist. */
void check_visible(struct patient *patient, struct finding *finding)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");

	(void)patient;
	if (!visible) {
		finding_set(finding, FINDING_FINE, "CUDA_VISIBLE_DEVICES is not set");
		return;
	}
	if (isalnum((unsigned char)*visible)) {
		finding_set(finding, FINDING_FINE, "CUDA_VISIBLE_DEVICES is %.200s", visible);
		return;
	}
	finding_set(finding, FINDING_WRONG, "CUDA_VISIBLE_DEVICES is '%.200s': programs see no GPU",
		    visible);
	finding_advise(finding, "unset CUDA_VISIBLE_DEVICES, or name GPUs by index or UUID");
}

/* ---- who else shares ------------------------------------------------------------------------- */

static const struct {
	const char *file, *whose;
} sharers[] = {
	{"libvgpu.so", "HAMi's"},	  {"libnvshare.so", "nvshare's"},
	{"libvcuda.so", "gpu-manager's"}, {"libcuda-control.so", "gpu-manager's"},
	{"libgemhook.so", "KubeShare's"},
};

static bool find_sharer(const char *text, const char *where, struct finding *finding)
{
	for (size_t i = 0; text && i < ARRAY_SIZE(sharers); i++) {
		if (!strstr(text, sharers[i].file))
			continue;
		finding_set(finding, FINDING_WRONG, "%s library %s is loaded by %s",
			    sharers[i].whose, sharers[i].file, where);
		finding_advise(finding, "two libraries in the driver's place refuse each other's "
					"memory: take it out, or do not use mete here");
		return true;
	}
	return false;
}

void check_sharers(struct patient *patient, struct finding *finding)
{
	owned(free) char *preload = NULL;
	char path[PATH_MAX];
	size_t size;

	if (file_slurp(node_path("/etc/ld.so.preload", path), PRELOAD_MOST, &preload, &size) < 0)
		preload = NULL;
	if (find_sharer(getenv("LD_PRELOAD"), "LD_PRELOAD", finding) ||
	    find_sharer(preload, path, finding) ||
	    (patient->has_driver &&
	     find_sharer(patient->driver.cuda, "the name libcuda.so.1", finding)))
		return;
	finding_set(finding, FINDING_FINE, "no other library shares GPUs here");
}

/* ---- on a node ------------------------------------------------------------------------------- */

/* systemd finds devices by /dev/char/MAJOR:MINOR. Where a link is missing, a reload of systemd
 * takes the device from all containers: "Failed to initialize NVML: Unknown Error". */
static bool lacks_link(const char *dev, const char *name, struct finding *finding)
{
	char path[PATH_MAX], link[PATH_MAX];
	struct stat file, there;

	snprintf(path, sizeof(path), "%.3000s/%s", dev, name);
	if (stat(path, &file) != 0 || !S_ISCHR(file.st_mode))
		return false;
	snprintf(link, sizeof(link), "%.3000s/char/%u:%u", dev, major(file.st_rdev),
		 minor(file.st_rdev));
	if (lstat(link, &there) == 0)
		return false;
	finding_set(finding, FINDING_WRONG,
		    "%s has no link in /dev/char: `systemctl daemon-reload` takes it from running "
		    "containers (NVML: Unknown Error)",
		    name);
	finding_advise(finding, "on the node, and at each of its starts: nvidia-ctk system "
				"create-dev-char-symlinks "
				"--create-all");
	return true;
}

void check_links(struct patient *patient, struct finding *finding)
{
	char dev[PATH_MAX];
	struct dirent *entry;
	DIR *folder;
	bool lacks = false;

	(void)patient;
	if (!node_may_read(finding))
		return;
	folder = opendir(node_path("/dev", dev));
	while (folder && !lacks && (entry = readdir(folder)))
		lacks = strncmp(entry->d_name, "nvidia", 6) == 0 &&
			lacks_link(dev, entry->d_name, finding);
	if (folder)
		closedir(folder);
	if (!lacks)
		finding_set(finding, FINDING_FINE, "a reload of systemd takes no GPU away");
}

void check_selinux(struct patient *patient, struct finding *finding)
{
	owned(free) char *text = NULL;
	char path[PATH_MAX];
	size_t size;

	(void)patient;
	if (!node_may_read(finding))
		return;
	if (file_slurp(node_path("/sys/fs/selinux/enforce", path), 64, &text, &size) < 0 ||
	    text[0] != '1') {
		finding_set(finding, FINDING_FINE, "it restricts nobody here");
		return;
	}
	finding_set(finding, FINDING_NOTE, "SELinux is enforced on this node");
	finding_advise(finding,
		       "containers may be refused mete's libraries and the GPUs' device files: "
		       "chcon -R -t "
		       "container_file_t /var/lib/mete, and setsebool -P container_use_devices on");
}
