/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mete doctor: each check reports what it found and, if something is wrong, what to do.
 */
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include <cjson/cJSON.h>

#include "base/place.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/doctor.h"
#include "cli/sim_node.h"

OWNED_POINTER(cJSON, cJSON_Delete)

static void closedir_owned(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

void finding_set(struct finding *finding, enum finding_verdict verdict, const char *format, ...)
{
	va_list arguments;

	finding->verdict = verdict;
	va_start(arguments, format);
	vsnprintf(finding->found, sizeof(finding->found), format, arguments);
	va_end(arguments);
}

void finding_advise(struct finding *finding, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(finding->advice, sizeof(finding->advice), format, arguments);
	va_end(arguments);
}

void check_driver(struct patient *patient, struct finding *finding)
{
	struct fault why;

	if (driver_find(&patient->driver, &why) < 0) {
		finding_set(finding, FINDING_WRONG, "%s", why.text);
		finding_advise(finding, "install NVIDIA's driver; on a machine without a GPU, add "
					"the folder of mete's simulated driver to LD_LIBRARY_PATH");
		return;
	}
	patient->has_driver = true;
	finding_set(finding, FINDING_FINE, "%s%s", patient->driver.cuda,
		    patient->driver.simulated ? " (simulated)" : "");
}

void check_version(struct patient *patient, struct finding *finding)
{
	int version = patient->driver.version;
	char guest[PATH_MAX];
	struct fault why;

	if (!patient->has_driver) {
		finding_set(finding, FINDING_NOTE, "unknown without a driver");
		return;
	}
	finding_set(finding, FINDING_FINE, "CUDA %d.%d", version / 1000, version % 1000 / 10);
	if (driver_guest(version, guest, &why) < 0 && strstr(why.text, "too old")) {
		finding->verdict = FINDING_WRONG;
		finding_advise(finding, "mete needs a driver for CUDA 11.0 or newer");
	}
}

enum { NVML_MISMATCH = 18 }; /* NVML_ERROR_LIB_RM_VERSION_MISMATCH */

void check_nvml(struct patient *patient, struct finding *finding)
{
	void *library;
	int (*init)(void) = NULL;
	const char *(*text)(int) = NULL;
	int status;

	if (!patient->has_driver || !patient->driver.nvml[0]) {
		finding_set(finding, FINDING_WRONG, "libnvidia-ml.so.1 is missing");
		finding_advise(finding, "it comes with the driver (Debian: libnvidia-ml1); meted "
					"cannot find the devices without it");
		return;
	}
	library = dlopen(patient->driver.nvml, RTLD_NOW | RTLD_LOCAL);
	if (library) {
		init = (int (*)(void))dlsym(library, "nvmlInit_v2");
		text = (const char *(*)(int))dlsym(library, "nvmlErrorString");
	}
	status = init ? init() : -1;
	if (status != 0) {
		finding_set(finding, FINDING_WRONG, "%s does not initialise: %s (error %d)",
			    patient->driver.nvml, init && text ? text(status) : "no NVML", status);
		if (status == NVML_MISMATCH)
			finding_advise(finding,
				       "the driver was updated, and the kernel has the former "
				       "module: restart the machine, or reload the module "
				       "when nobody uses a GPU");
		else
			finding_advise(finding, "is the kernel module loaded, and does its version "
						"match the library's?");
		return;
	}
	finding_set(finding, FINDING_FINE, "%s", patient->driver.nvml);
}

static const char load_module[] =
	"load the driver's kernel module (nvidia-smi or nvidia-modprobe does)";

/* Checking its rights is not enough: NVIDIA's libraries, run by root, create /dev/nvidiactl even
 * without the kernel module. 0, or -errno. */
static int try_device_file(const char *path)
{
	owned(close) int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);

	return fd < 0 ? -errno : 0;
}

static void say_unusable(struct finding *finding, const char *path, int error)
{
	finding_set(finding, FINDING_WRONG, "cannot open %s: %s", path, strerror(-error));
	if (error == -EACCES || error == -EPERM)
		finding_advise(finding,
			       "add your user to the group that owns it, or change its mode");
	else if (error == -ENXIO || error == -ENODEV)
		finding_advise(finding, "%s", load_module);
	else
		finding_advise(finding, "look for NVRM in `dmesg`");
}

void check_permissions(struct patient *patient, struct finding *finding)
{
	owned(closedir) DIR *dev = NULL;
	struct dirent *entry;
	bool gpu = false, uvm = false;
	int seen = 0, r;

	if (patient->has_driver && patient->driver.simulated) {
		finding_set(finding, FINDING_FINE, "the simulated driver needs none");
		return;
	}
	dev = opendir("/dev");
	while (dev && (entry = readdir(dev))) {
		char path[300];

		if (strncmp(entry->d_name, "nvidia", 6) != 0 || entry->d_type == DT_DIR)
			continue;
		snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
		seen++;
		gpu |= isdigit((unsigned char)entry->d_name[6]);
		uvm |= strcmp(entry->d_name, "nvidia-uvm") == 0;
		r = try_device_file(path);
		if (r < 0) {
			say_unusable(finding, path, r);
			return;
		}
	}
	if (gpu && !uvm) {
		finding_set(finding, FINDING_WRONG,
			    "there is no /dev/nvidia-uvm: CUDA programs fail with unknown errors");
		finding_advise(finding, "as root: nvidia-modprobe -u -c 0");
		return;
	}
	if (seen) {
		finding_set(finding, FINDING_FINE, "%d device files under /dev can be opened",
			    seen);
		return;
	}
	finding_set(finding, FINDING_WRONG, "there is no /dev/nvidia*");
	finding_advise(finding, "%s", load_module);
}

void check_guest(struct patient *patient, struct finding *finding)
{
	char folder[PATH_MAX], library[PATH_MAX + 16];
	struct fault why;

	if (driver_guest(patient->has_driver ? patient->driver.version : 12090, folder, &why) < 0) {
		finding_set(finding, FINDING_WRONG, "%s", why.text);
		finding_advise(finding, "run `make install` again");
		return;
	}
	snprintf(library, sizeof(library), "%s/libmete.so", folder);
	if (access(library, R_OK) != 0) {
		finding_set(finding, FINDING_WRONG, "%s: %s", library, strerror(errno));
		finding_advise(finding, "run `make install` again");
		return;
	}
	finding_set(finding, FINDING_FINE, "%s", library);
}

void check_path(struct patient *patient, struct finding *finding)
{
	const char *preload = getenv("LD_PRELOAD"), *driver = getenv("METE_DRIVER");

	(void)patient;
	if (preload && strstr(preload, "libmete.so"))
		finding_set(finding, FINDING_NOTE,
			    "this shell itself runs under mete (LD_PRELOAD)");
	else if (preload && *preload) {
		finding_set(finding, FINDING_NOTE, "LD_PRELOAD is set: %s", preload);
		finding_advise(finding,
			       "another library that replaces libcuda.so.1 may conflict with mete");
	} else if (driver)
		finding_set(finding, FINDING_NOTE, "METE_DRIVER is set: %s", driver);
	else
		finding_set(finding, FINDING_FINE, "no conflicts");
}

static const char own_folder[] = "remove it or set XDG_RUNTIME_DIR to a folder of your own";

void check_place(struct patient *patient, struct finding *finding)
{
	char place[PLACE_MAX], parent[PLACE_MAX];
	struct fault why;
	struct stat there;

	(void)patient;
	if (place_user(place, &why) < 0) {
		finding_set(finding, FINDING_WRONG, "%s", why.text);
		return;
	}
	snprintf(parent, sizeof(parent), "%s", place);
	*strrchr(parent, '/') = '\0';
	if (lstat(place, &there) == 0 ? place_make(place, PLACE_PRIVATE, &why) < 0
				      : access(parent, W_OK) != 0) {
		if (lstat(place, &there) != 0)
			best_effort(fault_set(&why, -errno, "%s cannot be created in %s", place,
					      parent));
		finding_set(finding, FINDING_WRONG, "%s", why.text);
		finding_advise(finding, own_folder);
		return;
	}
	finding_set(finding, FINDING_FINE, "%s", place);
}

static void advise_silent(const struct admin *admin, struct finding *finding)
{
	char state = admin_state(admin->pid);

	if (state == 'T' || state == 't')
		finding_advise(
			finding,
			"it was stopped by a signal: `kill -CONT %d` resumes it (as root if it is "
			"the system's). Meanwhile programs keep running with the memory they have",
			(int)admin->pid);
	else
		finding_advise(finding,
			       "end it with `kill -9 %d`, or restart the service (as root if it is "
			       "the system's). Programs keep running and reconnect to the new one",
			       (int)admin->pid);
}

static wire_text one_line(const wire_text *text)
{
	wire_text line = *text;

	for (char *at = line.text; *at; at++)
		if (*at == '\n')
			*at = at[1] ? ';' : '\0';
	return line;
}

static void advise_trouble(const struct admin *admin, struct finding *finding)
{
	const char *trouble = admin->daemon.trouble.text;

	if (strstr(trouble, "the driver has not answered"))
		finding_advise(finding,
			       "does nvidia-smi hang, too? Then look for NVRM in `dmesg`: the GPU "
			       "or the machine needs a reset. Restarting meted does not help");
	else if (strstr(trouble, "another meted") && admin->daemon.system)
		finding_advise(finding,
			       "this is the system's meted, which serves all users: end "
			       "the process that is named, as its user or root (`kill PID`)");
	else if (strstr(trouble, "another meted"))
		finding_advise(finding, "run the system's meted, which serves all users (see "
					"meted(8)), and stop the others");
	else
		finding_advise(finding, "correct the file; meted reads it again when it changes");
}

/* Another user made the folder: no meted of ours is there. */
static bool is_not_ours(const char *place)
{
	struct fault why;

	return strcmp(place, PLACE_SYSTEM) != 0 &&
	       place_check(place, getuid(), PLACE_PRIVATE, &why) < 0;
}

void check_daemon(struct patient *patient, struct finding *finding)
{
	owned(admin_close) struct admin admin = {.fd = -1};
	char place[PLACE_MAX];
	struct fault why;
	int r = admin_connect_any(&admin, place, &why);

	if (r == 0 && patient->has_driver && patient->driver.simulated)
		r = sim_node_check(admin.daemon.pid, &why);
	if (r < 0) {
		const char *elsewhere = strstr(why.text, ADMIN_DOCTOR);

		finding_set(finding, FINDING_WRONG, "%.*s",
			    (int)(elsewhere ? (size_t)(elsewhere - why.text) : strlen(why.text)),
			    why.text);
		if (r == -ETIMEDOUT)
			advise_silent(&admin, finding);
		if (r == -EPERM && is_not_ours(place))
			finding_advise(finding, own_folder);
		else if (r == -EPROTO || r == -EPERM)
			finding_advise(
				finding,
				"restart it: mete cannot talk to a meted of another version");
	} else if (r == ADMIN_ABSENT)
		finding_set(finding, FINDING_FINE, "not running; `mete run` starts it");
	else if (admin.daemon.trouble.text[0]) {
		finding_set(finding, FINDING_WRONG, "%s meted %s, pid %u, in %s says: %s",
			    admin.daemon.system ? "the system's" : "your own",
			    admin.daemon.version.text, admin.daemon.pid, place,
			    one_line(&admin.daemon.trouble).text);
		advise_trouble(&admin, finding);
	} else
		finding_set(finding, FINDING_FINE, "%s meted %s, pid %u, in %s",
			    admin.daemon.system ? "the system's" : "your own",
			    admin.daemon.version.text, admin.daemon.pid, place);
}

static const struct {
	const char *name, *title;
	void (*check)(struct patient *patient, struct finding *finding);
} checks[] = {
#define CHECK(name, title) {#name, title, check_##name},
#include "cli/checks.def"
#undef CHECK
};

static const char *const verdict_names[] = {"ok", "note", "wrong"};

int doctor_main(const struct cli_call *call)
{
	owned(cJSON_Delete) cJSON *list = cJSON_CreateArray();
	bool json = cli_value(call, "json"), wrong = false;
	struct patient patient = {0};

	if (call->argc)
		return cli_complain(call, CLI_USAGE, "'%s': doctor takes no arguments",
				    call->argv[0]);
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		struct finding finding = {0};
		cJSON *row = cJSON_CreateObject();

		checks[i].check(&patient, &finding);
		if (finding.verdict == FINDING_NONE) {
			cJSON_Delete(row);
			continue;
		}
		wrong |= finding.verdict == FINDING_WRONG;
		cJSON_AddStringToObject(row, "check", checks[i].name);
		cJSON_AddStringToObject(row, "verdict", verdict_names[finding.verdict]);
		cJSON_AddStringToObject(row, "found", finding.found);
		cJSON_AddStringToObject(row, "advice", finding.advice);
		cJSON_AddItemToArray(list, row);
		if (json)
			continue;
		printf("%-6s %-22s %s\n", verdict_names[finding.verdict], checks[i].title,
		       finding.found);
		if (finding.advice[0])
			printf("%-6s %-22s -> %s\n", "", "", finding.advice);
	}
	if (json) {
		owned(free) char *text = cJSON_Print(list);

		puts(text ? text : "[]");
	}
	return wrong ? 1 : 0;
}
