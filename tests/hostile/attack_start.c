/* SPDX-License-Identifier: Apache-2.0 */
/* The beginning of all attacks and of their neighbour, and their shared parts. */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/guest/must.h"
#include "tests/hostile/attack.h"

enum { MOST_THREADS = 32, PIECES_MOST = 4000 };

void *attack_find(const char *symbol)
{
	static void *library;
	void *found;

	if (!library)
		library = dlopen("libcuda.so.1", RTLD_NOW);
	found = library ? dlsym(library, symbol) : NULL;
	if (!found)
		fail("%s: %s", symbol, dlerror());
	return found;
}

void start(void)
{
	CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED};
	uint64_t keep = UINT64_MAX;

#define LOAD(symbol) g.symbol = CALL(symbol);
	FUNCTIONS(LOAD)
#undef LOAD
	if (g.cuInit(0) != CUDA_SUCCESS || g.cuDeviceGet(&g.device, 0) != CUDA_SUCCESS ||
	    g.cuCtxCreate_v2(&g.context, 0, g.device) != CUDA_SUCCESS)
		return;
	props.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, g.device};
	if (g.cuMemPoolCreate(&g.pool, &props) == CUDA_SUCCESS)
		g.cuMemPoolSetAttribute(g.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
}

void enter(void)
{
	if (g.cuCtxSetCurrent)
		g.cuCtxSetCurrent(g.context);
}

size_t take_everything_by(api_fn_cuMemAlloc_v2 *from)
{
	CUdeviceptr address;
	size_t taken = 0;
	unsigned pieces_taken = 0;

	for (size_t bytes = 128 * MIB; bytes >= 4096; bytes /= 4)
		while (pieces_taken < PIECES_MOST && from(&address, bytes) == CUDA_SUCCESS) {
			taken += bytes;
			pieces_taken++;
		}
	return taken;
}

size_t take_everything(void)
{
	return take_everything_by(CALL(cuMemAlloc_v2));
}

void start_and_take(void)
{
	start();
	take_everything();
}

void take_and_free(void)
{
	uint64_t t = 0;

	while (until(&t, 500)) {
		CUdeviceptr address;

		if (g.cuMemAlloc_v2(&address, 3 * MIB) == CUDA_SUCCESS)
			g.cuMemFree_v2(address);
	}
}

static void *thread_main(void *work)
{
	void (*run)(void);

	memcpy(&run, &work, sizeof(run));
	enter();
	run();
	return NULL;
}

void attack_each_thread(pid_t pid, void (*work)(pid_t thread))
{
	char path[40];
	const struct dirent *each;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	folder = opendir(path);
	while (folder && (each = readdir(folder)) != NULL) {
		pid_t thread = (pid_t)strtol(each->d_name, NULL, 10);

		if (thread && thread != pid)
			work(thread);
	}
	if (folder)
		closedir(folder);
}

void in_threads(unsigned threads, void (*work)(void))
{
	pthread_t thread[MOST_THREADS];
	unsigned made = 0;
	void *argument;

	memcpy(&argument, &work, sizeof(argument));
	while (made < threads && made < MOST_THREADS &&
	       pthread_create(&thread[made], NULL, thread_main, argument) == 0)
		made++;
	while (made > 0)
		pthread_join(thread[--made], NULL);
}

bool until(uint64_t *start_ms, uint64_t ms)
{
	const char *longer = getenv("HOSTILE_LONGER");
	struct timespec now;
	uint64_t now_ms;

	if (longer)
		ms *= strtoul(longer, NULL, 10);
	clock_gettime(CLOCK_MONOTONIC, &now);
	now_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
	if (!*start_ms)
		*start_ms = now_ms;
	return now_ms - *start_ms < ms;
}

void become(const char *name)
{
	execl("/proc/self/exe", "attack", name, (char *)NULL);
	_exit(127);
}

/* Only the end is waited for: an attack may have closed or exchanged its standard input. */
void wait_for_the_end(void)
{
	char line[64];
	ssize_t n;

	do
		n = read(STDIN_FILENO, line, sizeof(line));
	while (n > 0 || (n < 0 && errno == EINTR));
}

void child(void (*work)(void))
{
	int said[2];

	if (pipe(said) != 0)
		return;
	if (fork() == 0) {
		close(said[0]);
		work();
		best_effort(write(said[1], "", 1));
		close(said[1]);
		wait_for_the_end();
		_exit(0);
	}
	close(said[1]);
	best_effort(read(said[0], &(char){0}, 1));
	close(said[0]);
}

bool attack_is_connection(int fd)
{
	int kind = 0;
	socklen_t size = sizeof(kind);

	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &kind, &size) == 0 && kind == SOCK_SEQPACKET;
}

void attack_send_fd(int to, int fd)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec part = {(void *)"x", 1};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};

	control.header = (struct cmsghdr){CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	best_effort(sendmsg(to, &message, 0));
}

bool attack_is_shared(int fd)
{
	char path[64], target[256] = "";
	struct stat about;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return (fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode)) ||
	       (readlink(path, target, sizeof(target) - 1) > 0 && strstr(target, "/memfd:mete-"));
}

char *image(size_t bytes)
{
	char *text = NULL;

	if (asprintf(&text,
		     ".version 7.0\n.target sm_70\n.address_size 64\n"
		     ".visible .global .align 8 .b8 big[%zu];\n.visible .entry k() { ret; }\n",
		     bytes) < 0)
		fail("out of memory");
	return text;
}
