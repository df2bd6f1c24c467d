/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mete doctor: each check says what it found and, where something is wrong, what to do.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>

#include <cjson/cJSON.h>

#include "base/place.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/driver.h"

OWNED_POINTER(cJSON, cJSON_Delete)

enum verdict { FINE, NOTE, WRONG };

struct finding {
	enum verdict verdict;
	char found[600];  /* what there is */
	char advice[400]; /* what to do; "" where nothing */
};

/* What earlier checks learned. */
struct patient {
	bool has_driver;
	struct driver driver;
};

static void found(struct finding *finding, enum verdict verdict, const char *format, ...)
	printf_like(3, 4);
static void advise(struct finding *finding, const char *format, ...) printf_like(2, 3);

static void found(struct finding *finding, enum verdict verdict, const char *format, ...)
{
	va_list arguments;

	finding->verdict = verdict;
	va_start(arguments, format);
	vsnprintf(finding->found, sizeof(finding->found), format, arguments);
	va_end(arguments);
}

static void advise(struct finding *finding, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(finding->advice, sizeof(finding->advice), format, arguments);
	va_end(arguments);
}

static void check_driver(struct patient *patient, struct finding *finding)
{
	struct fault why;

	if (driver_find(&patient->driver, &why) < 0) {
		found(finding, WRONG, "%s", why.text);
		advise(finding, "install NVIDIA's driver, or for a machine without a GPU add the "
				"folder of mete's simulated one to LD_LIBRARY_PATH");
		return;
	}
	patient->has_driver = true;
	found(finding, FINE, "%s%s", patient->driver.cuda,
	      patient->driver.simulated ? " (simulated)" : "");
}

static void check_version(struct patient *patient, struct finding *finding)
{
	int version = patient->driver.version;
	char guest[PATH_MAX];
	struct fault why;

	if (!patient->has_driver) {
		found(finding, NOTE, "not known without a driver");
		return;
	}
	found(finding, FINE, "CUDA %d.%d", version / 1000, version % 1000 / 10);
	if (driver_guest(version, guest, &why) < 0 && strstr(why.text, "too old")) {
		finding->verdict = WRONG;
		advise(finding, "mete needs a driver of CUDA 11.0 or newer");
	}
}

static void check_nvml(struct patient *patient, struct finding *finding)
{
	void *library;
	int (*init)(void) = NULL;
	int status;

	if (!patient->has_driver || !patient->driver.nvml[0]) {
		found(finding, WRONG, "libnvidia-ml.so.1 is not there");
		advise(finding,
		       "it comes with the driver (Debian: libnvidia-ml1); meted cannot know "
		       "the devices without it");
		return;
	}
	library = dlopen(patient->driver.nvml, RTLD_NOW | RTLD_LOCAL);
	if (library)
		init = (int (*)(void))dlsym(library, "nvmlInit_v2");
	status = init ? init() : -1;
	if (status != 0) {
		found(finding, WRONG, "%s does not start (error %d)", patient->driver.nvml, status);
		advise(finding, "is the kernel module loaded, and of the library's version?");
		return;
	}
	found(finding, FINE, "%s", patient->driver.nvml);
}

static void check_permissions(struct patient *patient, struct finding *finding)
{
	DIR *dev;
	struct dirent *entry;
	int seen = 0;

	if (patient->has_driver && patient->driver.simulated) {
		found(finding, FINE, "the simulated driver needs none");
		return;
	}
	dev = opendir("/dev");
	while (dev && (entry = readdir(dev))) {
		char path[300];

		if (strncmp(entry->d_name, "nvidia", 6) != 0)
			continue;
		snprintf(path, sizeof(path), "/dev/%s", entry->d_name);
		if (entry->d_type == DT_DIR || ++seen == 0 || access(path, R_OK | W_OK) == 0)
			continue;
		found(finding, WRONG, "%s may not be opened: %s", path, strerror(errno));
		advise(finding, "add your user to the group that owns it, or change its mode");
		closedir(dev);
		return;
	}
	if (dev)
		closedir(dev);
	if (seen)
		found(finding, FINE, "%d under /dev may be opened", seen);
	else {
		found(finding, WRONG, "there is no /dev/nvidia*");
		advise(finding,
		       "load the driver's kernel module (nvidia-smi or nvidia-modprobe does)");
	}
}

static void check_guest(struct patient *patient, struct finding *finding)
{
	char folder[PATH_MAX], library[PATH_MAX + 16];
	struct fault why;

	if (driver_guest(patient->has_driver ? patient->driver.version : 12090, folder, &why) < 0) {
		found(finding, WRONG, "%s", why.text);
		advise(finding, "run `make install` again");
		return;
	}
	snprintf(library, sizeof(library), "%s/libmete.so", folder);
	if (access(library, R_OK) != 0) {
		found(finding, WRONG, "%s: %s", library, strerror(errno));
		advise(finding, "run `make install` again");
		return;
	}
	found(finding, FINE, "%s", library);
}

static void check_path(struct patient *patient, struct finding *finding)
{
	const char *preload = getenv("LD_PRELOAD"), *driver = getenv("METE_DRIVER");

	(void)patient;
	if (preload && strstr(preload, "libmete.so"))
		found(finding, NOTE, "this shell itself runs under mete (LD_PRELOAD)");
	else if (preload && *preload) {
		found(finding, NOTE, "LD_PRELOAD is set: %s", preload);
		advise(finding,
		       "another library that answers for libcuda.so.1 may stand in mete's way");
	} else if (driver)
		found(finding, NOTE, "METE_DRIVER is set: %s", driver);
	else
		found(finding, FINE, "nothing in the way");
}

static void check_place(struct patient *patient, struct finding *finding)
{
	char place[PLACE_MAX], parent[PLACE_MAX];
	struct fault why;
	struct stat there;

	(void)patient;
	if (place_user(place, &why) < 0) {
		found(finding, WRONG, "%s", why.text);
		return;
	}
	snprintf(parent, sizeof(parent), "%s", place);
	*strrchr(parent, '/') = '\0';
	if (lstat(place, &there) == 0 ? place_make(place, PLACE_PRIVATE, &why) < 0
				      : access(parent, W_OK) != 0) {
		if (lstat(place, &there) != 0)
			best_effort(
				fault_set(&why, -errno, "%s cannot be made in %s", place, parent));
		found(finding, WRONG, "%s", why.text);
		advise(finding, "remove it or set XDG_RUNTIME_DIR to a folder of your own");
		return;
	}
	found(finding, FINE, "%s", place);
}

static void check_daemon(struct patient *patient, struct finding *finding)
{
	owned(admin_close) struct admin admin = {.fd = -1};
	char place[PLACE_MAX];
	struct fault why;
	int r = admin_connect_any(&admin, place, &why);

	(void)patient;
	if (r < 0) {
		found(finding, WRONG, "%s", why.text);
		if (r == -EPROTO || r == -EPERM)
			advise(finding, "restart it: meted of another version cannot be spoken to");
	} else if (r == ADMIN_ABSENT)
		found(finding, FINE, "none runs; `mete run` starts one");
	else
		found(finding, FINE, "%s meted %s, pid %u, in %s",
		      admin.daemon.system ? "the system's" : "your own", admin.daemon.version.text,
		      admin.daemon.pid, place);
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

int doctor_main(const struct cli_line *line)
{
	owned(cJSON_Delete) cJSON *list = cJSON_CreateArray();
	bool json = cli_value(line, "json"), wrong = false;
	struct patient patient = {0};

	if (line->argc)
		return cli_complain(line, CLI_USAGE, "'%s': doctor takes no arguments",
				    line->argv[0]);
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		struct finding finding = {0};
		cJSON *row = cJSON_CreateObject();

		checks[i].check(&patient, &finding);
		wrong |= finding.verdict == WRONG;
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
