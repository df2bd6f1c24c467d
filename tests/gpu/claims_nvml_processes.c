/* SPDX-License-Identifier: Apache-2.0 */
/* NVML's answers about the processes on a device. */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/gpu/nvml_lab.h"

CLAIM(nvml_lists_a_process_by_its_pid_from_its_first_context_on)
{
	nvmlDevice_t device = nvml_device();

	must(cuInit(0));
	holds(!nvml_lists(device, getpid(), NULL), "it is listed before it has a context");
	make_context();
	holds(nvml_lists(device, getpid(), NULL), "it is not listed as %d though it has a context",
	      (int)getpid());
}

CLAIM(nvml_forgets_a_process_that_has_ended)
{
	nvmlDevice_t device = nvml_device();
	pid_t child = child_that(make_context);

	if (!nvml_lists(device, child, NULL))
		claim_failed("it is not listed while it lives");
	end_child(child);
	holds(!nvml_lists(device, child, NULL), "it is listed after it was waited for");
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
		device = nvml_device();
		holds(nvml_lists(device, other, NULL), "root's process is not listed to nobody");
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
	nvmlDevice_t device = nvml_device();
	unsigned long long context, module, memory;
	CUdeviceptr at;
	CUmodule loaded;

	make_context();
	context = nvml_bytes_of(device, getpid());
	must(cuModuleLoadData(&loaded, large));
	module = nvml_bytes_of(device, getpid());
	must(cuMemAlloc_v2(&at, 128 * MiB));
	memory = nvml_bytes_of(device, getpid());
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

		(void)nvml_lists(device, getpid(), NULL);
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
	(void)nvml_device();
	lab_busy_start(&busy, stream);
	lab_in_thread(list_often, &most);
	lab_busy_end(&busy);
	must(cuStreamSynchronize(stream));
	holds(most < 20000, "the slowest of 100 took %.1f ms", (double)most / 1e3);
	claim_say("the slowest of 100 took %.2f ms", (double)most / 1e3);
}

CLAIM(nvml_tells_each_processs_part_by_its_pid)
{
	nvmlProcessUtilizationSample_t *samples;
	nvmlDevice_t device;
	pid_t child;
	unsigned n = 0, room, part = 0, seen = 0;
	uint64_t from, took;

	lab_needs_real_time();
	device = nvml_device();
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
	device = nvml_device();
	maker_bytes = nvml_bytes_of(device, maker);
	before = nvml_bytes_of(device, getpid());
	must(cuMemImportFromShareableHandle(&handle, (void *)(intptr_t)take_descriptor(maker),
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	at = lab_reserve(256 * MiB);
	lab_map(&lab, at, handle, 256 * MiB);
	must(cuMemsetD32_v2(at, 1, 1));
	beside = nvml_bytes_of(device, getpid());
	holds(maker_bytes >= 256 * MiB, "the maker is charged %llu MiB", maker_bytes >> 20);
	idle = nvml_bytes_of_nobody(device);
	holds(idle < 32 * MiB, "%llu MiB are listed for no process", idle >> 20);
	holds(beside - before < 128 * MiB,
	      "while its maker lives, who imports it is charged %llu MiB", (beside - before) >> 20);
	end_child(maker);
	after = nvml_bytes_of(device, getpid());
	holds(lab_word(at) == 1, "it is gone with its maker");
	holds(after - before < 128 * MiB, "after its maker, who imported it is charged %llu MiB",
	      (after - before) >> 20);
	left = nvml_bytes_of_nobody(device);
	holds(left >= 256 * MiB && left < 288 * MiB,
	      "after its maker, %llu MiB are listed for no process", left >> 20);
	claim_say("listed for no process: %llu MiB, and %llu after the maker's end", idle >> 20,
		  left >> 20);
}
