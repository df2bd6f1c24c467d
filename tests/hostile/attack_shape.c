/* SPDX-License-Identifier: Apache-2.0 */
/* What a process's memory looks like, to itself and to whoever looks at it: where things lie, what
 * may be done with them, and pages that never come. */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cuda/nvml_prototypes.h"
#include "tests/forge_image.h"
#include "tests/guest/must.h"
#include "tests/hostile/attack.h"

#ifndef SYS_mseal
#define SYS_mseal 462 /* Linux 6.10 */
#endif
#ifndef PR_SET_MDWE
#define PR_SET_MDWE		 65 /* Linux 6.3 */
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

enum { PAGE = 4096, ROWS = 64 };

/* ---- what it was called with ----------------------------------------------------------------- */

/* For whoever reads that. */
static bool called_with(const char *from, size_t bytes)
{
	return forge_image_called((uintptr_t)from, (uintptr_t)from + bytes);
}

/* Whoever touches one of these pages waits for ever. -1: this kernel does not let it. */
static int withhold(char *from, size_t bytes, uint64_t mode)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {.range = {(uintptr_t)from, bytes}, .mode = mode};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);

	if (mode == UFFDIO_REGISTER_MODE_WP)
		api.features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM;
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) != 0 || ioctl(fd, UFFDIO_REGISTER, &range) != 0) {
		perror("attack: userfaultfd");
		return -1;
	}
	return fd;
}

void attack_arguments_held(void)
{
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	take_everything();
	if (page != MAP_FAILED && withhold(page, PAGE, UFFDIO_REGISTER_MODE_MISSING) >= 0 &&
	    !called_with(page, PAGE))
		perror("attack: PR_SET_MM_MAP");
}

/* The ends of characters without their beginnings, and of lines, and what terminals obey. */
void attack_arguments_forged(void)
{
	static const char noise[] = "\033[2J\r\n\x80\xe2\x80\xae\033]0;x\007\"},{\"pid\":1 <b>";
	size_t bytes = 64 * MIB;
	char *text = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (text == MAP_FAILED)
		return;
	for (size_t i = 0; i + sizeof(noise) < bytes; i += sizeof(noise) - 1)
		memcpy(text + i, noise, sizeof(noise) - 1);
	if (!called_with(text, bytes))
		perror("attack: PR_SET_MM_MAP");
	for (int i = 0; i < 3; i++)
		child(start_and_take);
	take_everything();
}

/* ---- its mappings ---------------------------------------------------------------------------- */

static void seal(char *from, size_t bytes)
{
	best_effort((int)syscall(SYS_mseal, from, bytes, 0));
}

/* Nothing that is mapped can be unmapped, moved or protected otherwise any more. */
void attack_both_sealed(void)
{
	CUdeviceptr address[8];

	for (int i = 0; i < 8; i++)
		if (g.cuMemAlloc_v2(&address[i], 32 * MIB) == CUDA_SUCCESS)
			CALL(cuMemsetD8_v2)(address[i], 1, 32 * MIB);
	attack_each_mapping(NULL, seal);
	in_threads(2, take_and_free);
	for (int i = 0; i < 2; i++)
		child(start_and_take);
	take_everything();
}

static void keep_from_being_written(char *from, size_t bytes)
{
	struct uffdio_writeprotect protect = {.range = {(uintptr_t)from, bytes},
					      .mode = UFFDIO_WRITEPROTECT_MODE_WP};
	int fd = withhold(from, bytes, UFFDIO_REGISTER_MODE_WP);

	if (fd >= 0 && ioctl(fd, UFFDIO_WRITEPROTECT, &protect) != 0)
		perror("attack: UFFDIO_WRITEPROTECT");
}

static void fill(void)
{
	CUdeviceptr address;

	while (g.cuMemAlloc_v2(&address, 32 * MIB) == CUDA_SUCCESS)
		CALL(cuMemsetD8_v2)(address, 2, 32 * MIB);
}

/* The library's own threads wait for ever where they write to their page; so does who takes. */
void attack_both_page_withheld(void)
{
	fill();
	attack_each_mapping("mete-guest", keep_from_being_written);
}

/* Whoever writes there waits for ever: the library, when its memory leaves. */
void attack_both_store_withheld(void)
{
	uint64_t t = 0;

	fill();
	while (until(&t, 1000)) {
		attack_each_mapping("mete-store", keep_from_being_written);
		usleep(50000);
	}
}

/* ---- where things lie ------------------------------------------------------------------------ */

void attack_written_never_executed(void)
{
	if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0)
		perror("attack: PR_SET_MDWE");
	for (int i = 0; i < 2; i++)
		child(start_and_take);
	start_and_take();
}

/* Everything at the same place, from the bottom, and executable. */
void attack_of_another_system(void)
{
	enum { OLD = ADDR_NO_RANDOMIZE | ADDR_COMPAT_LAYOUT | READ_IMPLIES_EXEC | MMAP_PAGE_ZERO };

	if (!getenv("HOSTILE_OLD")) {
		setenv("HOSTILE_OLD", "1", 1);
		if (personality(OLD) == -1)
			perror("attack: personality");
		become("of_another_system");
	}
	for (int i = 0; i < 2; i++)
		child(start_and_take);
	start_and_take();
}

/* A stack of 96 KiB, with which mappings lie below it, or one without an end, with which they lie
 * above each other. */
void attack_stacks_odd(void)
{
	static const rlim_t most[] = {96 << 10, RLIM_INFINITY};
	const char *count = getenv("HOSTILE_STACKS");
	size_t turn = count ? (size_t)atoi(count) : 0;
	char next[16];

	if (turn < ARRAY_SIZE(most)) {
		struct rlimit limit = {most[turn], RLIM_INFINITY};

		start_and_take();
		snprintf(next, sizeof(next), "%zu", turn + 1);
		setenv("HOSTILE_STACKS", next, 1);
		setrlimit(RLIMIT_STACK, &limit);
		if (turn == 0)
			child(start_and_take);
		become("stacks_odd");
	}
	start_and_take();
}

/* ---- what it is shown ------------------------------------------------------------------------ */

/* A tenant's processes are those of its `mete run`'s session. */
static void judge(const char *function, unsigned pid)
{
	if (getsid((pid_t)pid) != getsid(0))
		printf("process %u was shown by %s\n", pid, function);
}

static void look(void *library, nvmlDevice_t device, const char *function, size_t row_bytes)
{
	nvmlReturn_t (*ask)(nvmlDevice_t, unsigned *, void *);
	static uint64_t rows[ROWS * sizeof(nvmlProcessInfo_t) / sizeof(uint64_t)];
	unsigned count = ROWS;

	*(void **)&ask = dlsym(library, function);
	if (!ask || ask(device, &count, rows) != NVML_SUCCESS)
		return;
	for (unsigned i = 0; i < count; i++) {
		unsigned pid;

		memcpy(&pid, (char *)rows + i * row_bytes, sizeof(pid));
		judge(function, pid);
	}
}

static void look_at_samples(void *library, nvmlDevice_t device)
{
	nvmlReturn_t (*ask)(nvmlDevice_t, nvmlProcessUtilizationSample_t *, unsigned *,
			    unsigned long long);
	static nvmlProcessUtilizationSample_t rows[ROWS];
	unsigned count = ROWS;

	*(void **)&ask = dlsym(library, "nvmlDeviceGetProcessUtilization");
	if (ask && ask(device, rows, &count, 0) == NVML_SUCCESS)
		for (unsigned i = 0; i < count; i++)
			judge("nvmlDeviceGetProcessUtilization", rows[i].pid);
}

static void look_at_memory(void *library, nvmlDevice_t device)
{
	nvmlReturn_t (*ask)(nvmlDevice_t, nvmlMemory_t *);
	nvmlMemory_t memory = {0};

	*(void **)&ask = dlsym(library, "nvmlDeviceGetMemoryInfo");
	if (ask && ask(device, &memory) == NVML_SUCCESS && memory.total > 512 * MIB)
		printf("a device of %llu bytes was shown\n", memory.total);
}

/* Every function of the management library that lists processes, in each of its versions. */
void attack_neighbours_listed(void)
{
	static const struct {
		const char *function;
		size_t bytes;
	} lists[] = {
		{"nvmlDeviceGetComputeRunningProcesses", sizeof(nvmlProcessInfo_v1_t)},
		{"nvmlDeviceGetComputeRunningProcesses_v2", sizeof(nvmlProcessInfo_v2_t)},
		{"nvmlDeviceGetComputeRunningProcesses_v3", sizeof(nvmlProcessInfo_t)},
		{"nvmlDeviceGetGraphicsRunningProcesses", sizeof(nvmlProcessInfo_v1_t)},
		{"nvmlDeviceGetGraphicsRunningProcesses_v2", sizeof(nvmlProcessInfo_v2_t)},
		{"nvmlDeviceGetGraphicsRunningProcesses_v3", sizeof(nvmlProcessInfo_t)},
		{"nvmlDeviceGetMPSComputeRunningProcesses", sizeof(nvmlProcessInfo_v1_t)},
		{"nvmlDeviceGetMPSComputeRunningProcesses_v2", sizeof(nvmlProcessInfo_v2_t)},
		{"nvmlDeviceGetMPSComputeRunningProcesses_v3", sizeof(nvmlProcessInfo_t)},
	};
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	nvmlReturn_t (*init)(void) = NULL;
	nvmlReturn_t (*by_index)(unsigned, nvmlDevice_t *) = NULL;
	nvmlDevice_t device;
	uint64_t t = 0;

	take_everything();
	if (library) {
		*(void **)&init = dlsym(library, "nvmlInit_v2");
		*(void **)&by_index = dlsym(library, "nvmlDeviceGetHandleByIndex_v2");
	}
	if (!init || !by_index || init() != NVML_SUCCESS)
		fail("no management library");
	while (until(&t, 1000)) {
		for (unsigned n = 0; n < 2; n++) {
			if (by_index(n, &device) != NVML_SUCCESS)
				continue;
			for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
				look(library, device, lists[i].function, lists[i].bytes);
			look_at_samples(library, device);
			look_at_memory(library, device);
		}
		usleep(20000);
	}
}
