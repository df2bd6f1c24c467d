/* SPDX-License-Identifier: Apache-2.0 */
/* meted's pages and files in a process, and what the process may still have or open. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/hostile/attack.h"

enum { WHILE_MS = 1000, MANY_MAPPINGS = 66000, PAGE = 4096, MAPPINGS = 2048, LINE = 512 };

static void limit(int which, rlim_t most)
{
	setrlimit((__rlimit_resource_t)which, &(struct rlimit){most, most});
}

void attack_each_mapping(const char *name, void (*work)(char *from, size_t bytes))
{
	static struct {
		uintptr_t from, to;
	} found[MAPPINGS];
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[LINE];
	int count = 0;

	while (maps && count < MAPPINGS && fgets(line, sizeof(line), maps)) {
		char *end;

		if (name && !strstr(line, name))
			continue;
		found[count].from = strtoull(line, &end, 16);
		found[count++].to = strtoull(end + 1, NULL, 16);
	}
	if (maps)
		fclose(maps);
	while (count-- > 0)
		work((char *)found[count].from, found[count].to - found[count].from);
}

/* Calls work() for each of meted's pages in this process. */
static void each_page(void (*work)(char *from, size_t bytes))
{
	attack_each_mapping("mete-guest", work);
	attack_each_mapping("mete-tenant", work);
}

/* As a program that was saved and is brought back by one that knows nothing of meted. */
static void bring_back(char *from, size_t bytes)
{
	char *kept = malloc(bytes);

	if (!kept)
		return;
	memcpy(kept, from, bytes);
	if (mmap(from, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) != MAP_FAILED)
		memcpy(from, kept, bytes);
	free(kept);
}

void attack_pages_brought_back(void)
{
	CUdeviceptr address;

	g.cuMemAlloc_v2(&address, 64 * MIB);
	each_page(bring_back);
	in_threads(4, take_and_free);
	take_everything();
}

static void not_for_children(char *from, size_t bytes)
{
	madvise(from, bytes, MADV_DONTFORK);
}

/* Its children lack what the library thinks is there. */
void attack_pages_not_inherited(void)
{
	each_page(not_for_children);
	for (int i = 0; i < 4; i++)
		child(start_and_take);
	take_everything();
}

/* Of the files behind its mappings and descriptors: shorter, and sealed against all that meted
 * would do with them. */
static void spoil(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return;
	best_effort(ftruncate(fd, 0));
	best_effort(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 30));
	best_effort(fcntl(fd, F_ADD_SEALS,
			  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL));
	close(fd);
}

static void spoil_each(const char *folder)
{
	const struct dirent *each;
	DIR *open_folder = opendir(folder);

	while (open_folder && (each = readdir(open_folder)) != NULL) {
		char path[400], target[256] = "";

		snprintf(path, sizeof(path), "%s/%s", folder, each->d_name);
		if (readlink(path, target, sizeof(target) - 1) > 0 &&
		    strstr(target, "/memfd:mete-"))
			spoil(path);
	}
	if (open_folder)
		closedir(open_folder);
}

void attack_both_files_spoiled(void)
{
	CUdeviceptr address;

	g.cuMemAlloc_v2(&address, 200 * MIB);
	CALL(cuMemsetD8_v2)(address, 3, 200 * MIB);
	for (int i = 0; i < 20; i++) {
		spoil_each("/proc/self/fd");
		spoil_each("/proc/self/map_files");
		usleep(50000);
	}
	take_everything();
}

/* So many mappings that the kernel gives no more. */
void attack_both_mappings_many(void)
{
	CUdeviceptr address;

	g.cuMemAlloc_v2(&address, 200 * MIB);
	for (int i = 0; i < MANY_MAPPINGS; i++)
		if (mmap(NULL, PAGE, i & 1 ? PROT_READ : PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED)
			break;
	in_threads(3, take_and_free);
	take_everything();
}

/* ---- limits and watchers --------------------------------------------------------------------- */

void attack_both_files_16(void)
{
	CUdeviceptr address;

	limit(RLIMIT_NOFILE, 16);
	g.cuMemAlloc_v2(&address, 200 * MIB);
	for (int i = 0; i < 3; i++)
		child(start_and_take);
	in_threads(3, take_and_free);
	take_everything();
}

void attack_both_no_file_grows(void)
{
	CUdeviceptr address;

	signal(SIGXFSZ, SIG_IGN);
	limit(RLIMIT_FSIZE, PAGE);
	g.cuMemAlloc_v2(&address, 200 * MIB);
	CALL(cuMemsetD8_v2)(address, 4, 200 * MIB);
	in_threads(3, take_and_free);
	take_everything();
}

void attack_no_data(void)
{
	limit(RLIMIT_DATA, 1 * MIB);
	start();
	in_threads(4, take_and_free);
	take_everything();
}

/* The kernel ends it when it has computed for a second. */
void attack_time_is_up(void)
{
	for (int i = 0; i < 3; i++)
		if (fork() == 0) {
			limit(RLIMIT_CPU, 1);
			start();
			for (;;)
				take_and_free();
		}
	usleep(2 * WHILE_MS * 1000);
	start_and_take();
}

/* Nothing but what is open already. */
void attack_landlocked(void)
{
	struct landlock_ruleset_attr all = {.handled_access_fs = (1ull << 13) - 1};
	int rules = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof(all), 0);

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	best_effort(syscall(SYS_landlock_restrict_self, rules, 0) == 0);
	in_threads(4, take_and_free);
	for (int i = 0; i < 3; i++)
		child(start_and_take);
	take_everything();
}

/* /dev/shm is full, by a small one of its own. */
void attack_both_places_full(void)
{
	static char page[PAGE];
	CUdeviceptr address;

	if (unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	    mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64k") == 0) {
		int fd = open("/dev/shm/all", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

		while (write(fd, page, sizeof(page)) > 0)
			;
	}
	g.cuMemAlloc_v2(&address, 200 * MIB);
	CALL(cuMemsetD8_v2)(address, 4, 200 * MIB);
	in_threads(3, take_and_free);
	take_everything();
}

/* A supervisor of system calls, as of a container: late, and every third call is interrupted. */
static void *supervise(void *listener)
{
	int fd;

	while ((fd = __atomic_load_n((int *)listener, __ATOMIC_ACQUIRE)) < 0)
		usleep(1000);
	for (unsigned n = 0;; n++) {
		struct seccomp_notif asked = {0};
		struct seccomp_notif_resp answer = {0};

		if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0)
			continue;
		usleep(3000);
		answer.id = asked.id;
		if (n % 3 == 0)
			answer.error = -EINTR;
		else
			answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
		best_effort(ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &answer));
	}
	return NULL;
}

static int listen_to_calls(void)
{
	static const int watched[] = {SYS_connect,  SYS_sendmsg, SYS_recvmsg,	 SYS_sendto,
				      SYS_recvfrom, SYS_poll,	 SYS_epoll_wait, SYS_membarrier};
	struct sock_filter filter[ARRAY_SIZE(watched) + 3] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	struct sock_fprog program = {.len = ARRAY_SIZE(filter), .filter = filter};

	for (size_t i = 0; i < ARRAY_SIZE(watched); i++)
		filter[i + 1] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, (unsigned)watched[i],
			(unsigned char)(ARRAY_SIZE(watched) - i), 0);
	filter[ARRAY_SIZE(watched) + 1] =
		(struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	filter[ARRAY_SIZE(watched) + 2] =
		(struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			    &program);
}

void attack_supervised(void)
{
	static int listener = -1;
	pthread_t thread;
	int fd;

	/* It is not supervised itself: the filter is of this thread, and of those that it makes. */
	if (pthread_create(&thread, NULL, supervise, &listener) != 0)
		return;
	fd = listen_to_calls();
	__atomic_store_n(&listener, fd, __ATOMIC_RELEASE);
	if (fd >= 0)
		start_and_take();
}
