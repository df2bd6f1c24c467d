/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nvidia-smi for simulated devices: the queries of scripts and GPUtil, and a table.
 *
 *	nvidia-smi                              a table of devices and processes
 *	nvidia-smi -L                           the devices, one a line
 *	nvidia-smi --query-gpu=F,...            columns of nvidia_smi.def
 *	nvidia-smi --query-compute-apps=F,...   likewise, a line per process
 *
 *	nvidia-smi -c MODE                      the compute mode: DEFAULT, EXCLUSIVE_PROCESS,
 *PROHIBITED
 *
 * The queries with --format=csv[,noheader][,nounits]; -i with a number or UUID: that device only.
 * Asks libnvidia-ml.so.1 as the dynamic linker finds it: under mete, the guest's answers.
 */
#include <stdbool.h>
#include <string.h>

#include "base/macros.h"
#include "cuda/nvml_prototypes.h"
#include "sim/nvml/nvidia_smi_columns.h"

enum { FIELDS_MAX = 64, PROCESSES_MAX = 512 };

static struct {
	const char *gpu_fields, *app_fields, *device, *mode;
	bool list, no_header, no_units, csv;
} arg;

/* ---- queries ------------------------------------------------------------------------------- */

static bool chosen(nvmlDevice_t device)
{
	char index[SMI_TEXT_BYTES], uuid[SMI_TEXT_BYTES];

	return !arg.device ||
	       (smi_write("index", device, index) && strcmp(index, arg.device) == 0) ||
	       (smi_write("uuid", device, uuid) && strcmp(uuid, arg.device) == 0);
}

/* The next chosen device from *index on. */
static bool next_device(unsigned int *index, nvmlDevice_t *ret_device)
{
	while (nvmlDeviceGetHandleByIndex_v2(*index, ret_device) == NVML_SUCCESS) {
		(*index)++;
		if (chosen(*ret_device))
			return true;
	}
	return false;
}

/* The names between commas; white space around them does not count. */
static int split(const char *list, const struct smi_column *ret_fields[FIELDS_MAX],
		 size_t *ret_count)
{
	size_t count = 0;

	for (;;) {
		size_t length;

		list += strspn(list, " ");
		length = strcspn(list, ", ");
		if (count == FIELDS_MAX ||
		    !(ret_fields[count++] = smi_column_named(list, length))) {
			fprintf(stderr, "Field \"%.*s\" is not a valid field to query. Fields are:",
				(int)length, list);
			for (size_t i = 0; smi_column(i); i++)
				fprintf(stderr, " %s", smi_column(i)->name);
			fputc('\n', stderr);
			return -EINVAL;
		}
		list += length;
		list += strspn(list, " ");
		if (!*list) {
			*ret_count = count;
			return 0;
		}
		list++;
	}
}

static void print_names(const struct smi_column *const *columns, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		bool unit = *columns[i]->unit && !arg.no_units;

		printf("%s%s%s%s%s", i ? ", " : "", columns[i]->name, unit ? " [" : "",
		       unit ? columns[i]->unit : "", unit ? "]" : "");
	}
	putchar('\n');
}

static void print_device(const struct smi_column *const *columns, size_t count, nvmlDevice_t device)
{
	for (size_t i = 0; i < count; i++) {
		char text[SMI_TEXT_BYTES] = "";
		bool has = columns[i]->write(device, text);
		bool unit = has && *columns[i]->unit && !arg.no_units;

		printf("%s%s%s%s", i ? ", " : "", has ? text : "[N/A]", unit ? " " : "",
		       unit ? columns[i]->unit : "");
	}
	putchar('\n');
}

static int query_devices(void)
{
	const struct smi_column *columns[FIELDS_MAX];
	unsigned int index = 0;
	nvmlDevice_t device;
	size_t count;

	if (split(arg.gpu_fields, columns, &count) < 0)
		return 2;
	if (!arg.no_header)
		print_names(columns, count);
	while (next_device(&index, &device))
		print_device(columns, count, device);
	return 0;
}

static unsigned int processes_of(nvmlDevice_t device, nvmlProcessInfo_t *ret_processes)
{
	unsigned int count = PROCESSES_MAX;

	if (nvmlDeviceGetComputeRunningProcesses_v3(device, &count, ret_processes) != NVML_SUCCESS)
		return 0;
	return count;
}

static void print_app_column(const char *name, size_t length, nvmlDevice_t device,
			     const nvmlProcessInfo_t *process)
{
	char text[512] = "?";

	if (length == 3 && !memcmp(name, "pid", 3)) {
		printf("%u", process->pid);
	} else if (!memcmp(name, "used_", 5)) {
		printf("%llu%s", process->usedGpuMemory >> 20, arg.no_units ? "" : " MiB");
	} else if (!memcmp(name, "gpu_uuid", 8)) {
		best_effort(smi_write("uuid", device, text));
		fputs(text, stdout);
	} else {
		best_effort(nvmlSystemGetProcessName(process->pid, text, sizeof(text)));
		fputs(text, stdout);
	}
}

static bool is_app_column(const char *name, size_t length)
{
	static const char *const names[] = {
		"pid", "process_name", "name", "used_gpu_memory", "used_memory", "gpu_uuid"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strlen(names[i]) == length && !memcmp(names[i], name, length))
			return true;
	return false;
}

static void print_app(nvmlDevice_t device, const nvmlProcessInfo_t *process)
{
	for (const char *at = arg.app_fields; *at;) {
		size_t length = strcspn(at, ",");

		print_app_column(at, length, device, process);
		at += length;
		if (*at) {
			fputs(", ", stdout);
			at++;
		}
	}
	putchar('\n');
}

static int query_apps(void)
{
	static nvmlProcessInfo_t processes[PROCESSES_MAX];
	unsigned int index = 0;
	nvmlDevice_t device;

	for (const char *at = arg.app_fields; *at;) {
		size_t length = strcspn(at, ",");

		if (!is_app_column(at, length)) {
			fprintf(stderr, "Field \"%.*s\" is not a valid field to query.\n",
				(int)length, at);
			return 2;
		}
		at += length;
		if (*at)
			at++;
	}
	if (!arg.no_header)
		printf("%s\n", arg.app_fields);
	while (next_device(&index, &device)) {
		unsigned int count = processes_of(device, processes);

		for (unsigned int i = 0; i < count; i++)
			print_app(device, &processes[i]);
	}
	return 0;
}

/* ---- for people ---------------------------------------------------------------------------- */

/* The parts that MIG has made of a GPU. */
static void list_parts(nvmlDevice_t gpu)
{
	char name[SMI_TEXT_BYTES], uuid[SMI_TEXT_BYTES];
	unsigned int most = 0;

	if (nvmlDeviceGetMaxMigDeviceCount(gpu, &most) != NVML_SUCCESS)
		return;
	for (unsigned int i = 0; i < most; i++) {
		const char *profile;
		nvmlDevice_t part;

		if (nvmlDeviceGetMigDeviceHandleByIndex(gpu, i, &part) != NVML_SUCCESS ||
		    nvmlDeviceGetName(part, name, sizeof(name)) != NVML_SUCCESS ||
		    nvmlDeviceGetUUID(part, uuid, sizeof(uuid)) != NVML_SUCCESS)
			continue;
		profile = strstr(name, "MIG ");
		printf("  %-14s Device %2u: (UUID: %s)\n", profile ? profile : name, i, uuid);
	}
}

static int list(void)
{
	char name[SMI_TEXT_BYTES], uuid[SMI_TEXT_BYTES];
	unsigned int index = 0;
	nvmlDevice_t device;

	while (next_device(&index, &device))
		if (smi_write("name", device, name) && smi_write("uuid", device, uuid)) {
			printf("GPU %u: %s (UUID: %s)\n", index - 1, name, uuid);
			list_parts(device);
		}
	return 0;
}

static void rule(char line)
{
	putchar('+');
	for (int i = 0; i < 78; i++)
		putchar(line);
	puts("+");
}

static int table(void)
{
	static nvmlProcessInfo_t processes[PROCESSES_MAX];
	char driver[SMI_TEXT_BYTES] = "?", name[512];
	char columns[6][SMI_TEXT_BYTES];
	unsigned int index = 0;
	nvmlDevice_t device;
	int cuda = 0;

	best_effort(smi_write("driver_version", NULL, driver));
	best_effort(nvmlSystemGetCudaDriverVersion_v2(&cuda));
	rule('-');
	printf("| %-30s Driver: %-16s CUDA: %2d.%-11d |\n", "NVIDIA-SMI (simulated devices)",
	       driver, cuda / 1000, cuda % 1000 / 10);
	rule('=');
	printf("| %3s  %-26s %5s %9s %18s %8s |\n", "GPU", "Name", "Temp", "Power", "Memory MiB",
	       "Util");
	rule('-');
	while (next_device(&index, &device)) {
		static const char *const names[] = {"name",	    "temperature.gpu",
						    "power.draw",   "memory.used",
						    "memory.total", "utilization.gpu"};

		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			if (!smi_write(names[i], device, columns[i]))
				snprintf(columns[i], SMI_TEXT_BYTES, "ERR!");
		printf("| %3u  %-26.26s %4.4sC %8.8sW %8.8s / %7.7s %7.7s%% |\n", index - 1,
		       columns[0], columns[1], columns[2], columns[3], columns[4], columns[5]);
	}
	rule('=');
	index = 0;
	while (next_device(&index, &device)) {
		unsigned int count = processes_of(device, processes);

		for (unsigned int i = 0; i < count; i++) {
			if (nvmlSystemGetProcessName(processes[i].pid, name, sizeof(name)))
				snprintf(name, sizeof(name), "?");
			printf("| %3u  pid %-10u %-40.40s %10llu MiB    |\n", index - 1,
			       processes[i].pid, name, processes[i].usedGpuMemory >> 20);
		}
	}
	rule('-');
	return 0;
}

/* ---- settings ------------------------------------------------------------------------------ */

static int set_mode(void)
{
	static const struct {
		const char *word, *number;
		nvmlComputeMode_t mode;
	} rows[] = {{"DEFAULT", "0", NVML_COMPUTEMODE_DEFAULT},
		    {"PROHIBITED", "2", NVML_COMPUTEMODE_PROHIBITED},
		    {"EXCLUSIVE_PROCESS", "3", NVML_COMPUTEMODE_EXCLUSIVE_PROCESS}};
	unsigned int index = 0;
	nvmlDevice_t device;
	size_t i = 0;

	while (i < ARRAY_SIZE(rows) && strcmp(rows[i].word, arg.mode) != 0 &&
	       strcmp(rows[i].number, arg.mode) != 0)
		i++;
	if (i == ARRAY_SIZE(rows)) {
		fprintf(stderr, "nvidia-smi: '%s' is no compute mode\n", arg.mode);
		return 2;
	}
	while (next_device(&index, &device)) {
		nvmlReturn_t r = nvmlDeviceSetComputeMode(device, rows[i].mode);

		if (r != NVML_SUCCESS) {
			fprintf(stderr, "nvidia-smi: the compute mode of GPU %u: %s\n", index - 1,
				nvmlErrorString(r));
			return 3;
		}
		printf("Set compute mode to %s for GPU %u.\n", rows[i].word, index - 1);
	}
	return 0;
}

/* ---- the command line ---------------------------------------------------------------------- */

static int refuse(const char *text)
{
	fprintf(stderr,
		"nvidia-smi (simulated): '%s' is not understood. Known: -L, -i DEVICE, -c MODE, "
		"--query-gpu=FIELDS, --query-compute-apps=FIELDS, "
		"--format=csv[,noheader][,nounits]\n",
		text);
	return 2;
}

static int parse_format(const char *text)
{
	static const char *const words[] = {"csv", "noheader", "nounits"};
	bool *const flags[] = {&arg.csv, &arg.no_header, &arg.no_units};

	while (*text) {
		size_t length = strcspn(text, ","), i;

		for (i = 0; i < ARRAY_SIZE(words); i++)
			if (strlen(words[i]) == length && !memcmp(words[i], text, length))
				break;
		if (i == ARRAY_SIZE(words))
			return -EINVAL;
		*flags[i] = true;
		text += length;
		text += strspn(text, ", ");
	}
	return 0;
}

static const char *after(const char *text, const char *prefix)
{
	size_t length = strlen(prefix);

	return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

/* Options with a value: behind the sign, or as the next word. */
static const struct option {
	const char *name, **field;
	bool next;
} options[] = {
	{"--query-gpu=", &arg.gpu_fields, false},
	{"--query-compute-apps=", &arg.app_fields, false},
	{"--id=", &arg.device, false},
	{"-i", &arg.device, true},
	{"-c", &arg.mode, true},
	{"--compute-mode", &arg.mode, true},
};

/* Returns how many words it has taken; 0: the first one is no option with a value. */
static int take_option(int count, char **words)
{
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		const struct option *o = &options[i];
		const char *value = o->next ? NULL : after(words[0], o->name);

		if (o->next && count > 1 && !strcmp(words[0], o->name))
			value = words[1];
		if (!value)
			continue;
		*o->field = value;
		return o->next ? 2 : 1;
	}
	return 0;
}

static int parse(int count, char **words)
{
	for (int i = 1, taken; i < count; i += taken) {
		const char *word_ = words[i], *value;

		taken = take_option(count - i, words + i);
		if (taken)
			continue;
		taken = 1;
		if (!strcmp(word_, "-L") || !strcmp(word_, "--list-gpus"))
			arg.list = true;
		else if (!(value = after(word_, "--format=")) || parse_format(value) < 0)
			return refuse(word_);
	}
	if ((arg.gpu_fields || arg.app_fields) && !arg.csv)
		return refuse("a query without --format=csv");
	return 0;
}

int main(int count, char **words)
{
	nvmlReturn_t r;
	int status = parse(count, words);

	if (status)
		return status;
	r = nvmlInit_v2();
	if (r != NVML_SUCCESS) {
		fprintf(stderr, "nvidia-smi: cannot reach the driver: %s\n", nvmlErrorString(r));
		return 9;
	}
	if (arg.list)
		status = list();
	else if (arg.mode)
		status = set_mode();
	else if (arg.gpu_fields)
		status = query_devices();
	else if (arg.app_fields)
		status = query_apps();
	else
		status = table();
	if (nvmlShutdown() != NVML_SUCCESS || fflush(stdout) != 0)
		return 1;
	return status;
}
