/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/gpu/lab.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

/*
 * add(p, k): *p += k. store(p, v): *p = v. spin(begun, end): sets *begun, and runs until *end is
 * not 0. watch(p, begun, end): the same, and reads *p all the while. nothing(). times(p): the clock
 * twice, and before and after a nanosleep of 100 us. sleep(n): n times 100 us. large(): no more
 * than 32 threads. counter: a variable, 64 MiB of room: hoard.
 */
static const char text[] =
	".version 6.3\n.target sm_70\n.address_size 64\n"
	".visible .entry add(.param .u64 p, .param .u32 k)\n{\n"
	".reg .u32 %v, %k;\n.reg .u64 %a;\n"
	"ld.param.u64 %a, [p];\nld.param.u32 %k, [k];\n"
	"ld.global.u32 %v, [%a];\nadd.u32 %v, %v, %k;\nst.global.u32 [%a], %v;\nret;\n}\n"
	".visible .entry store(.param .u64 p, .param .u32 v)\n{\n"
	".reg .u32 %v;\n.reg .u64 %a;\n"
	"ld.param.u64 %a, [p];\nld.param.u32 %v, [v];\nst.global.u32 [%a], %v;\nret;\n}\n"
	".visible .entry spin(.param .u64 begun, .param .u64 end)\n{\n"
	".reg .u32 %v;\n.reg .u64 %b, %e;\n.reg .pred %q;\n"
	"ld.param.u64 %b, [begun];\nld.param.u64 %e, [end];\n"
	"mov.u32 %v, 1;\nst.volatile.global.u32 [%b], %v;\nmembar.sys;\n"
	"AGAIN:\nld.volatile.global.u32 %v, [%e];\nsetp.eq.u32 %q, %v, 0;\n@%q bra "
	"AGAIN;\nret;\n}\n"
	".visible .entry watch(.param .u64 p, .param .u64 begun, .param .u64 end)\n{\n"
	".reg .u32 %v, %w;\n.reg .u64 %a, %b, %e;\n.reg .pred %q;\n"
	"ld.param.u64 %a, [p];\nld.param.u64 %b, [begun];\nld.param.u64 %e, [end];\n"
	"mov.u32 %v, 1;\nst.volatile.global.u32 [%b], %v;\nmembar.sys;\n"
	"AGAIN:\nld.volatile.global.u32 %w, [%a];\nld.volatile.global.u32 %v, [%e];\n"
	"setp.eq.u32 %q, %v, 0;\n@%q bra AGAIN;\nret;\n}\n"
	".visible .entry nothing()\n{\nret;\n}\n"
	".visible .entry times(.param .u64 p)\n{\n"
	".reg .u64 %a, %c, %d;\n"
	"ld.param.u64 %a, [p];\n"
	"mov.u64 %c, %clock64;\nmov.u64 %d, %clock64;\n"
	"st.global.u64 [%a], %c;\nst.global.u64 [%a+8], %d;\n"
	"mov.u64 %c, %globaltimer;\nnanosleep.u32 100000;\nmov.u64 %d, %globaltimer;\n"
	"st.global.u64 [%a+16], %c;\nst.global.u64 [%a+24], %d;\nret;\n}\n"
	".visible .entry sleep(.param .u32 n)\n{\n"
	".reg .u32 %n;\n.reg .pred %q;\n"
	"ld.param.u32 %n, [n];\n"
	"AGAIN:\nnanosleep.u32 100000;\nsub.u32 %n, %n, 1;\nsetp.ne.u32 %q, %n, 0;\n@%q bra "
	"AGAIN;\nret;\n}\n"
	".visible .entry large()\n.maxntid 32, 1, 1\n{\nret;\n}\n";

struct lab lab_begin(void)
{
	struct lab lab;

	must(cuInit(0));
	must(cuDeviceGet(&lab.device, 0));
	must(cuCtxCreate_v2(&lab.context, 0, lab.device));
	must(cuModuleLoadData(&lab.module, text));
	return lab;
}

CUfunction lab_kernel(const struct lab *lab, const char *name)
{
	CUfunction kernel;

	must(cuModuleGetFunction(&kernel, lab->module, name));
	return kernel;
}

/* Ours lies beside the program that describes it. */
bool lab_simulated(void)
{
	static const char *const places[] = {"mete-sim", "../mete-sim"};
	char path[PATH_MAX + 16], *slash;
	Dl_info info;

	if (!dladdr((void *)(uintptr_t)cuInit, &info) || !realpath(info.dli_fname, path))
		return false;
	slash = strrchr(path, '/') + 1;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		strcpy(slash, places[i]);
		if (access(path, X_OK) == 0)
			return true;
	}
	return false;
}

void lab_needs_real_time(void)
{
	if (lab_simulated())
		claim_needs("a real device: the simulated one's time is modelled, or the host's");
}

size_t lab_free_bytes(void)
{
	size_t available, total;

	must(cuMemGetInfo_v2(&available, &total));
	return available;
}

uint64_t lab_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

CUresult lab_launch(CUfunction kernel, CUstream stream, void **arguments)
{
	return cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}

CUstream lab_stream(unsigned flags)
{
	CUstream stream;

	must(cuStreamCreate(&stream, flags));
	return stream;
}

CUevent lab_event(unsigned flags)
{
	CUevent event;

	must(cuEventCreate(&event, flags));
	return event;
}

unsigned lab_word(CUdeviceptr address)
{
	unsigned word = 0;

	must(cuMemcpyDtoH_v2(&word, address, sizeof(word)));
	return word;
}

struct lab_word lab_shared_word(void)
{
	struct lab_word word;
	void *memory;

	must(cuMemHostAlloc(&memory, 64, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
	memset(memory, 0, 64);
	word.host = memory;
	must(cuMemHostGetDevicePointer_v2(&word.device, memory, 0));
	return word;
}

struct lab_busy lab_busy_new(const struct lab *lab)
{
	return (struct lab_busy){lab_shared_word(), lab_shared_word(), lab_kernel(lab, "spin")};
}

/* Its own word is the event; a kernel that never begins is ended by check-gpu's patience. */
void lab_busy_start(struct lab_busy *busy, CUstream stream)
{
	void *arguments[] = {&busy->begun.device, &busy->end.device};

	must(lab_launch(busy->kernel, stream, arguments));
	while (!atomic_load(busy->begun.host))
		usleep(50);
}

void lab_busy_end(struct lab_busy *busy)
{
	atomic_store(busy->end.host, 1);
}

void lab_in_thread(void *(*function)(void *), void *argument)
{
	pthread_t thread;
	int r = pthread_create(&thread, NULL, function, argument);

	if (r != 0)
		claim_failed("no thread: %s", strerror(r));
	pthread_join(thread, NULL);
}

pid_t lab_fork(void)
{
	pid_t child = fork();

	if (child < 0)
		claim_failed("no second process: %s", strerror(errno));
	if (child == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return child;
}

CUmemAllocationProp lab_property(const struct lab *lab, bool shareable)
{
	CUmemAllocationProp property;

	memset(&property, 0, sizeof(property));
	property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	property.location.id = lab->device;
	if (shareable)
		property.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	return property;
}

CUmemGenericAllocationHandle lab_create(const struct lab *lab, size_t bytes)
{
	CUmemAllocationProp property = lab_property(lab, false);
	CUmemGenericAllocationHandle handle;

	must(cuMemCreate(&handle, bytes, &property, 0));
	return handle;
}

CUdeviceptr lab_reserve(size_t bytes)
{
	CUdeviceptr at;

	must(cuMemAddressReserve(&at, bytes, 0, 0, 0));
	return at;
}

void lab_map(const struct lab *lab, CUdeviceptr at, CUmemGenericAllocationHandle handle,
	     size_t bytes)
{
	CUmemAccessDesc access;

	memset(&access, 0, sizeof(access));
	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.location.id = lab->device;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	must(cuMemMap(at, bytes, 0, handle, 0));
	must(cuMemSetAccess(at, bytes, &access, 1));
}
