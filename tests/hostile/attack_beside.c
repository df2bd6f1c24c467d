/* SPDX-License-Identifier: Apache-2.0 */
/* What is beside the guest in its process: other libraries that want the same calls; and what the
 * process lacks: places to write to, address space, descriptors. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/hostile/attack.h"

enum { PAGE = 4096 };

/* This program again, with tests/hostile/interposer.c preloaded before the guest, or behind it. */
static void noreturn_ interposed(bool first)
{
	const char *others = getenv("LD_PRELOAD");
	char path[4096] = "", preload[8300];
	char *folder_end;

	best_effort(readlink("/proc/self/exe", path, sizeof(path) - 32));
	folder_end = strrchr(path, '/');
	if (!folder_end || !others)
		_exit(127);
	strcpy(folder_end + 1, "interposer.so");
	snprintf(preload, sizeof(preload), "%s:%s", first ? path : others, first ? others : path);
	setenv("LD_PRELOAD", preload, 1);
	become("take-linear");
}

void attack_interposed_first(void)
{
	interposed(true);
}

void attack_interposed_last(void)
{
	interposed(false);
}

void attack_interposed_apart(void)
{
	setenv("HOSTILE_INTERPOSER", "apart", 1);
	interposed(true);
}

/* ---- places to write to ---------------------------------------------------------------------- */

/* The machine's own folder stays as it is: it is the simulated driver's. */
static void close_places(void)
{
	const char *machine = getenv("METE_SIM_DIR");

	if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return;
	best_effort(mount("tmpfs", "/dev/shm", "tmpfs", MS_RDONLY, "size=4k,nr_inodes=1"));
	best_effort(mount("tmpfs", "/var/tmp", "tmpfs", 0, "size=4k,nr_inodes=1"));
	best_effort(mount(machine, machine, NULL, MS_BIND, NULL));
	best_effort(mount("/tmp", "/tmp", NULL, MS_BIND | MS_REC, NULL));
	best_effort(mount(NULL, "/tmp", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL));
}

void attack_places_closed(void)
{
	close_places();
	start();
	in_threads(4, take_and_free);
	take_everything();
}

/* ---- limits of its own, while its memory leaves and comes back ------------------------------- */

static void limit(int which, rlim_t most)
{
	setrlimit((__rlimit_resource_t)which, &(struct rlimit){most, most});
}

static rlim_t address_space(void)
{
	char line[128] = "0";
	FILE *size = fopen("/proc/self/statm", "re");

	if (size && !fgets(line, sizeof(line), size))
		line[0] = '\0';
	if (size)
		fclose(size);
	return strtoul(line, NULL, 10) * PAGE;
}

static void fill_and_take(void)
{
	CUdeviceptr address;

	if (g.cuMemAlloc_v2(&address, 200 * MIB) == CUDA_SUCCESS)
		CALL(cuMemsetD8_v2)(address, 7, 200 * MIB);
	in_threads(3, take_and_free);
	take_everything();
}

void attack_both_little_space(void)
{
	CUdeviceptr address;

	limit(RLIMIT_AS, address_space() + 40 * MIB);
	for (int i = 0; i < 100; i++)
		g.cuMemAlloc_v2(&address, 64 * MIB);
	fill_and_take();
}

void attack_both_limits_low(void)
{
	limit(RLIMIT_MEMLOCK, 0);
	limit(RLIMIT_NPROC, 0);
	fill_and_take();
}

/* It can be passed no descriptor: none of the store's, none of a restarted meted. */
void attack_both_few_files(void)
{
	limit(RLIMIT_NOFILE, 3);
	fill_and_take();
}
