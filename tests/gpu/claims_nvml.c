/* SPDX-License-Identifier: Apache-2.0 */
/* What NVML says of a device and of the processes on it. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/nvml_prototypes.h"
#include "tests/gpu/lab.h"

enum { GUARD = 64, MANY = 64 };

#define nvml(call) nvml_must((call), #call)

static void nvml_must(nvmlReturn_t r, const char *call)
{
	if (r == NVML_ERROR_NOT_SUPPORTED)
		claim_needs("the driver does not support it: %s", call);
	if (r != NVML_SUCCESS)
		claim_failed("%s is %d", call, (int)r);
}

static nvmlDevice_t device_of_nvml(void)
{
	nvmlDevice_t device;

	nvml(nvmlInit_v2());
	nvml(nvmlDeviceGetHandleByIndex_v2(0, &device));
	return device;
}

/* Whether the process is listed; its bytes. */
static bool listed(nvmlDevice_t device, pid_t pid, unsigned long long *ret_bytes)
{
	nvmlProcessInfo_t processes[MANY];
	unsigned n = MANY;

	nvml(nvmlDeviceGetComputeRunningProcesses_v3(device, &n, processes));
	for (unsigned i = 0; i < n; i++) {
		if (processes[i].pid != (unsigned)pid)
			continue;
		if (ret_bytes)
			*ret_bytes = processes[i].usedGpuMemory;
		return true;
	}
	return false;
}

static unsigned long long bytes_of(nvmlDevice_t device, pid_t pid)
{
	unsigned long long bytes = 0;

	if (!listed(device, pid, &bytes))
		claim_failed("process %d is not listed", (int)pid);
	if (bytes == ~0ull)
		claim_needs("a driver that tells processes' memory");
	return bytes;
}

/* In use, and listed for no process. */
static unsigned long long nobodys(nvmlDevice_t device)
{
	nvmlMemory_v2_t memory = {.version = NVML_STRUCT_VERSION(Memory, 2)};
	nvmlProcessInfo_t processes[MANY];
	unsigned long long listed_bytes = 0;
	unsigned n = MANY;

	nvml(nvmlDeviceGetComputeRunningProcesses_v3(device, &n, processes));
	nvml(nvmlDeviceGetMemoryInfo_v2(device, &memory));
	for (unsigned i = 0; i < n; i++)
		listed_bytes += processes[i].usedGpuMemory;
	return memory.used > listed_bytes ? memory.used - listed_bytes : 0;
}

/* A child that does one thing with the device, says so by a byte and waits for its end. */
static pid_t child_that(void (*act)(void))
{
	int ends[2];
	char byte = 1;
	pid_t child;

	if (pipe(ends) != 0)
		claim_failed("no pipe");
	child = lab_fork();
	if (child == 0) {
		act();
		if (write(ends[1], &byte, 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ends[1]);
	if (read(ends[0], &byte, 1) != 1)
		claim_failed("the second process did not get so far");
	close(ends[0]);
	return child;
}

static void end_child(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void make_context(void)
{
	(void)lab_begin();
}

CLAIM(nvml_old_forms_write_no_more_than_they_had)
{
	nvmlDevice_t device = device_of_nvml();
	union {
		nvmlPciInfo_v2_t info;
		unsigned char bytes[sizeof(nvmlPciInfo_v2_t) + GUARD];
	} pci[2];
	nvmlReturn_t r[2];

	memset(pci, 0xa5, sizeof(pci));
	r[0] = nvmlDeviceGetPciInfo(device, &pci[0].info);
	r[1] = nvmlDeviceGetPciInfo_v2(device, &pci[1].info);
	for (int i = 0; i < 2; i++) {
		if (r[i] != NVML_SUCCESS)
			claim_failed("form %d of nvmlDeviceGetPciInfo is %d", i + 1, (int)r[i]);
		for (size_t at = sizeof(nvmlPciInfo_v2_t); at < sizeof(pci[i]); at++)
			holds(pci[i].bytes[at] == 0xa5, "form %d writes byte %zu", i + 1, at);
	}
}

static void stray(void)
{
	struct lab lab = lab_begin();
	CUdeviceptr nowhere = 64;
	unsigned v = 1;
	void *arguments[] = {&nowhere, &v};

	must(lab_launch(lab_kernel(&lab, "store"), NULL, arguments));
	(void)cuCtxSynchronize();
}

/* For mig.py, which looks at the event itself. */
CLAIM_PART(go_astray)
{
	stray();
}

/* By the first form of nvmlEventSetWait, whose data is shorter. */
CLAIM(nvml_reports_an_illegal_address_as_xid)
{
	nvmlDevice_t device = device_of_nvml();
	union {
		nvmlEventData_v1_t data;
		unsigned char bytes[sizeof(nvmlEventData_v1_t) + GUARD];
	} event;
	nvmlEventSet_t set;
	nvmlReturn_t r;

	memset(&event, 0xa5, sizeof(event));
	nvml(nvmlEventSetCreate(&set));
	nvml(nvmlDeviceRegisterEvents(device, nvmlEventTypeXidCriticalError, set));
	end_child(child_that(stray));
	r = nvmlEventSetWait(set, &event.data, 5000);
	holds(r == NVML_SUCCESS, "no event within 5 s: nvmlEventSetWait is %d", (int)r);
	for (size_t at = sizeof(nvmlEventData_v1_t); at < sizeof(event); at++)
		holds(event.bytes[at] == 0xa5, "the first form of nvmlEventSetWait writes byte %zu",
		      at);
	holds(event.data.device == device && event.data.eventType == nvmlEventTypeXidCriticalError,
	      "an event of type %llx", event.data.eventType);
	holds(event.data.eventData == 13 || event.data.eventData == 31, "Xid %llu",
	      event.data.eventData);
	claim_say("Xid %llu", event.data.eventData);
}

CLAIM(nvml_lists_a_process_by_its_pid_from_its_first_context_on)
{
	nvmlDevice_t device = device_of_nvml();

	must(cuInit(0));
	holds(!listed(device, getpid(), NULL), "it is listed before it has a context");
	make_context();
	holds(listed(device, getpid(), NULL), "it is not listed as %d though it has a context",
	      (int)getpid());
}

CLAIM(nvml_forgets_a_process_that_has_ended)
{
	nvmlDevice_t device = device_of_nvml();
	pid_t child = child_that(make_context);

	if (!listed(device, child, NULL))
		claim_failed("it is not listed while it lives");
	end_child(child);
	holds(!listed(device, child, NULL), "it is listed after it was waited for");
}

CLAIM(nvml_lists_other_users_processes_to_any_user)
{
	pid_t other, child;
	int status;

	if (getuid() != 0)
		claim_needs("root, to become another user");
	other = child_that(make_context);
	child = lab_fork();
	if (child == 0) {
		nvmlDevice_t device;

		if (setgid(65534) != 0 || setuid(65534) != 0)
			claim_failed("no other user");
		device = device_of_nvml();
		holds(listed(device, other, NULL), "root's process is not listed to nobody");
		_exit(0);
	}
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		claim_failed("no second process");
	end_child(other);
	if (WEXITSTATUS(status))
		_exit(WEXITSTATUS(status)); /* it has said why */
}

static const char large[] = ".version 6.3\n.target sm_70\n.address_size 64\n"
			    ".visible .global .align 8 .b8 room[67108864];\n"
			    ".visible .entry k()\n{\nret;\n}\n";

CLAIM(nvml_counts_a_processs_context_module_and_memory_at_once)
{
	nvmlDevice_t device = device_of_nvml();
	unsigned long long context, module, memory;
	CUdeviceptr at;
	CUmodule loaded;

	make_context();
	context = bytes_of(device, getpid());
	must(cuModuleLoadData(&loaded, large));
	module = bytes_of(device, getpid());
	must(cuMemAlloc_v2(&at, 128 * MiB));
	memory = bytes_of(device, getpid());
	holds(context > 0, "a context counts nothing");
	holds(module - context >= 64 * MiB, "a module with 64 MiB counts %llu bytes",
	      module - context);
	holds(memory - module >= 128 * MiB, "128 MiB count %llu bytes", memory - module);
	claim_say("a context %llu MiB", context >> 20);
}

static void *list_often(void *argument)
{
	uint64_t *most = argument;
	nvmlDevice_t device;

	nvml(nvmlDeviceGetHandleByIndex_v2(0, &device));
	for (int i = 0; i < 100; i++) {
		uint64_t from = lab_now_us(), took;

		(void)listed(device, getpid(), NULL);
		took = lab_now_us() - from;
		*most = took > *most ? took : *most;
	}
	return NULL;
}

CLAIM(nvml_lists_processes_within_milliseconds_from_a_thread)
{
	struct lab lab = lab_begin();
	struct lab_busy busy = lab_busy_new(&lab);
	CUstream stream = lab_stream(CU_STREAM_NON_BLOCKING);
	uint64_t most = 0;

	lab_needs_real_time();
	(void)device_of_nvml();
	lab_busy_start(&busy, stream);
	lab_in_thread(list_often, &most);
	lab_busy_end(&busy);
	must(cuStreamSynchronize(stream));
	holds(most < 20000, "the slowest of 100 took %.1f ms", (double)most / 1e3);
	claim_say("the slowest of 100 took %.2f ms", (double)most / 1e3);
}

CLAIM(nvml_answers_within_2_s_on_a_sleeping_gpu)
{
	uint64_t from = lab_now_us(), took;
	nvmlDevice_t device = device_of_nvml();
	nvmlEnableState_t persistent;

	(void)listed(device, 1, NULL);
	took = lab_now_us() - from;
	nvml(nvmlDeviceGetPersistenceMode(device, &persistent));
	claim_say("%.0f ms", (double)took / 1e3);
	if (persistent == NVML_FEATURE_ENABLED)
		claim_needs("a GPU without persistence mode (nvidia-smi -pm 0) that nobody uses; "
			    "%.0f ms with it",
			    (double)took / 1e3);
	holds(took < 2000000, "%.0f ms", (double)took / 1e3);
}

CLAIM(nvml_numbers_the_buss_highest_speed_and_names_the_present_one)
{
	nvmlDevice_t device = device_of_nvml();
	unsigned number = 0, mbps = 0, generation = 0;

	nvml(nvmlDeviceGetPcieLinkMaxSpeed(device, &number));
	nvml(nvmlDeviceGetMaxPcieLinkGeneration(device, &generation));
	nvml(nvmlDeviceGetPcieSpeed(device, &mbps));
	holds(number >= generation && number <= NVML_PCIE_LINK_MAX_SPEED_64000MBPS,
	      "the highest speed of generation %u is %u", generation, number);
	holds(mbps >= 2500, "the present speed is %u", mbps);
	claim_say("generation %u: number %u, %u MBPS now", generation, number, mbps);
}

CLAIM(nvml_minor_number_is_that_of_the_device_file)
{
	nvmlDevice_t device = device_of_nvml();
	nvmlPciInfo_t pci;
	struct stat about;
	char path[128], line[128];
	unsigned minor_number, told = ~0u;
	FILE *information;

	nvml(nvmlDeviceGetMinorNumber(device, &minor_number));
	snprintf(path, sizeof(path), "/dev/nvidia%u", minor_number);
	if (stat(path, &about) != 0)
		claim_needs("the device file: there is no %s", path);
	holds(minor(about.st_rdev) == minor_number, "%s has the minor number %u", path,
	      minor(about.st_rdev));
	nvml(nvmlDeviceGetPciInfo_v3(device, &pci));
	snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%04x:%02x:%02x.0/information",
		 pci.domain, pci.bus, pci.device);
	information = fopen(path, "r");
	if (!information)
		claim_needs("the kernel module's word: there is no %s", path);
	while (fgets(line, sizeof(line), information))
		if (sscanf(line, "Device Minor: %u", &told) == 1)
			break;
	fclose(information);
	holds(told == minor_number, "NVML says %u, the kernel module %u", minor_number, told);
}

CLAIM(nvml_reserved_is_what_nobody_gets)
{
	struct lab lab = lab_begin();
	nvmlDevice_t device = device_of_nvml();
	nvmlMemory_v2_t memory;
	size_t bytes = 1024 * MiB;
	unsigned long long mine, missing;
	CUdeviceptr at;

	(void)lab;
	for (; bytes >= 2 * MiB; bytes /= 2)
		while (cuMemAlloc_v2(&at, bytes) == CUDA_SUCCESS)
			;
	memset(&memory, 0, sizeof(memory));
	memory.version = (unsigned)(sizeof(memory) | 2 << 24);
	nvml(nvmlDeviceGetMemoryInfo_v2(device, &memory));
	mine = bytes_of(device, getpid());
	if (memory.used > mine + 16 * MiB)
		claim_needs("a device that nobody else uses: %llu MiB are others'",
			    (memory.used - mine) >> 20);
	holds(memory.total - memory.reserved >= mine,
	      "%llu bytes were had, reserved are %llu of %llu", mine, memory.reserved,
	      memory.total);
	missing = memory.total - memory.reserved - mine;
	holds(missing < 64 * MiB, "%llu MiB more than what is reserved are not had", missing >> 20);
	claim_say("reserved %llu MiB; %llu MiB more were not had", memory.reserved >> 20,
		  missing >> 20);
}

/* Kernels for longer than anybody looks. */
static void keep_busy(void)
{
	enum { KERNELS = 60 };
	struct lab lab = lab_begin();
	unsigned n = 1000; /* 100 ms */
	void *arguments[] = {&n};

	for (int i = 0; i < KERNELS; i++)
		must(lab_launch(lab_kernel(&lab, "sleep"), NULL, arguments));
}

static unsigned utilisation(nvmlDevice_t device)
{
	nvmlUtilization_t rates;

	nvml(nvmlDeviceGetUtilizationRates(device, &rates));
	return rates.gpu;
}

CLAIM(nvml_utilisation_is_the_busy_part_of_the_last_sixth_of_a_second)
{
	nvmlDevice_t device;
	pid_t child;
	unsigned busy, idle;

	lab_needs_real_time();
	device = device_of_nvml();
	child = child_that(keep_busy);
	usleep(1200000); /* several of its periods: the figure itself is the claim */
	busy = utilisation(device);
	end_child(child);
	usleep(1200000);
	idle = utilisation(device);
	holds(busy >= 95, "%u %% while a kernel runs", busy);
	holds(idle <= 5, "%u %% while nothing runs", idle);
}

CLAIM(nvml_tells_each_processs_part_by_its_pid)
{
	nvmlProcessUtilizationSample_t *samples;
	nvmlDevice_t device;
	pid_t child;
	unsigned n = 0, room, part = 0, seen = 0;
	uint64_t from, took;

	lab_needs_real_time();
	device = device_of_nvml();
	child = child_that(keep_busy);
	usleep(2200000);
	from = lab_now_us();
	if (nvmlDeviceGetProcessUtilization(device, NULL, &n, 0) != NVML_ERROR_INSUFFICIENT_SIZE)
		claim_failed("without room it says something else");
	room = n;
	samples = calloc(room + 1, sizeof(*samples));
	nvml(nvmlDeviceGetProcessUtilization(device, samples, &n, 0));
	took = lab_now_us() - from;
	for (unsigned i = 0; i < n; i++) {
		claim_say("pid %u: %u %% at %llu", samples[i].pid, samples[i].smUtil,
			  samples[i].timeStamp);
		if (samples[i].pid != (unsigned)child)
			continue;
		seen++;
		part = samples[i].smUtil > part ? samples[i].smUtil : part;
	}
	end_child(child);
	holds(seen > 0, "the process is not among %u samples", n);
	holds(part >= 90, "a process with a kernel all the time has %u %%", part);
	holds(took < 50000, "a query takes %.1f ms", (double)took / 1e3);
	claim_say("%u %%, in %.1f ms; room for %u is asked for, %u come", part, (double)took / 1e3,
		  room, n);
}

static int descriptor = -1;
static int maker_pipe[2];

/* The maker passes the number of a descriptor that its parent takes by pidfd_getfd. */
static void make_exported(void)
{
	struct lab lab = lab_begin();
	CUmemAllocationProp property = lab_property(&lab, true);
	CUmemGenericAllocationHandle handle;
	CUdeviceptr at = lab_reserve(256 * MiB);

	must(cuMemCreate(&handle, 256 * MiB, &property, 0));
	lab_map(&lab, at, handle, 256 * MiB);
	must(cuMemExportToShareableHandle(&descriptor, handle,
					  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	if (write(maker_pipe[1], &descriptor, sizeof(descriptor)) != sizeof(descriptor))
		_exit(1);
}

static int take_descriptor(pid_t maker)
{
	int number, pidfd = (int)syscall(434 /* pidfd_open */, maker, 0), fd;

	if (read(maker_pipe[0], &number, sizeof(number)) != sizeof(number))
		claim_failed("the maker says nothing");
	fd = (int)syscall(438 /* pidfd_getfd */, pidfd, number, 0);
	if (fd < 0)
		claim_needs("leave to take a descriptor of a child (pidfd_getfd)");
	return fd;
}

CLAIM(nvml_charges_exported_memory_to_its_maker_and_then_to_nobody)
{
	unsigned long long maker_bytes, before, beside, after, idle, left;
	CUmemGenericAllocationHandle handle;
	nvmlDevice_t device;
	struct lab lab;
	CUdeviceptr at;
	pid_t maker;

	if (pipe(maker_pipe) != 0)
		claim_failed("no pipe");
	maker = child_that(make_exported);
	lab = lab_begin();
	device = device_of_nvml();
	maker_bytes = bytes_of(device, maker);
	before = bytes_of(device, getpid());
	must(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)take_descriptor(maker),
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	at = lab_reserve(256 * MiB);
	lab_map(&lab, at, handle, 256 * MiB);
	must(cuMemsetD32_v2(at, 1, 1));
	beside = bytes_of(device, getpid());
	holds(maker_bytes >= 256 * MiB, "the maker is charged %llu MiB", maker_bytes >> 20);
	idle = nobodys(device);
	holds(idle < 32 * MiB, "%llu MiB are listed for no process", idle >> 20);
	holds(beside - before < 128 * MiB,
	      "while its maker lives, who imports it is charged %llu MiB", (beside - before) >> 20);
	end_child(maker);
	after = bytes_of(device, getpid());
	holds(lab_word(at) == 1, "it is gone with its maker");
	holds(after - before < 128 * MiB, "after its maker, who imported it is charged %llu MiB",
	      (after - before) >> 20);
	left = nobodys(device);
	holds(left >= 256 * MiB && left < 288 * MiB,
	      "after its maker, %llu MiB are listed for no process", left >> 20);
	claim_say("listed for no process: %llu MiB, and %llu after the maker's end", idle >> 20,
		  left >> 20);
}
