/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process's life with a driver, as lines: what happens when it forks, closes the library, or
 * calls from many threads at once.
 *
 *	live LIBRARY fork|children|close|threads|exit
 *	live LIBRARY calls      one call of each kind of trampoline, for a debugger
 *	live LIBRARY wait       prints where the driver's cuCtxGetCurrent is; waits for its input's
 *	                        end
 */
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/prototypes.h"

enum {
	THREADS = 16,
	CHILDREN = 4,
	ROUNDS = 3,
};

static const char *library;

static void *symbol(void *handle, const char *name)
{
	void *address = dlsym(handle, name);

	if (!address) {
		printf("%s: %s\n", name, dlerror());
		exit(2);
	}
	return address;
}

static void *opened(void)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

	if (!handle) {
		printf("%s\n", dlerror());
		exit(2);
	}
	return handle;
}

/* What a program sees first: two results, the version, and whether an address was found. */
struct seen {
	int init, version, count, found;
};

static struct seen see(void *handle)
{
	api_fn_cuInit *init = (api_fn_cuInit *)symbol(handle, "cuInit");
	api_fn_cuDriverGetVersion *version =
		(api_fn_cuDriverGetVersion *)symbol(handle, "cuDriverGetVersion");
	api_fn_cuDeviceGetCount *count =
		(api_fn_cuDeviceGetCount *)symbol(handle, "cuDeviceGetCount");
	api_fn_cuGetProcAddress *look_up =
		(api_fn_cuGetProcAddress *)symbol(handle, "cuGetProcAddress");
	struct seen seen = {.init = (int)init(0)};
	void *address = NULL;
	int number = -1;

	version(&seen.version);
	seen.count = (int)count(&number);
	seen.found = look_up("cuMemAlloc", &address, seen.version, 0) == CUDA_SUCCESS && address;
	return seen;
}

static void say(const char *who, struct seen seen)
{
	printf("%s: init %d version %d count %d found %d\n", who, seen.init, seen.version,
	       seen.count, seen.found);
	fflush(stdout);
}

static int entries(const char *folder)
{
	DIR *there = opendir(folder);
	int count = 0;

	while (there && readdir(there))
		count++;
	if (there)
		closedir(there);
	return count;
}

static void end_child(void)
{
	fflush(stdout);
	_exit(0);
}

static void await(const char *who, pid_t child)
{
	int status = -1;

	if (waitpid(child, &status, 0) != child || status != 0)
		printf("%s ended with %#x\n", who, (unsigned)status);
}

/* Before the first call, after it, and from a child. */
static void live_fork(void)
{
	void *handle = opened();
	pid_t child;

	child = fork();
	if (child == 0) {
		say("a child from before", see(handle));
		end_child();
	}
	await("the child from before", child);
	say("the parent", see(handle));
	child = fork();
	if (child == 0) {
		say("a child", see(handle));
		child = fork();
		if (child == 0) {
			say("its child", see(handle));
			end_child();
		}
		await("its child", child);
		end_child();
	}
	await("the child", child);
	say("the parent, after all", see(handle));
}

static void live_children(void)
{
	void *handle = opened();
	pid_t child[CHILDREN];

	see(handle);
	for (int i = 0; i < CHILDREN; i++) {
		child[i] = fork();
		if (child[i] == 0)
			_exit(see(handle).init == CUDA_ERROR_NO_DEVICE ? 0 : 1);
	}
	for (int i = 0; i < CHILDREN; i++)
		await("a child", child[i]);
	printf("%d children\n", CHILDREN);
}

/* Programs that probe for a GPU open and close the library again and again. */
static void live_close(void)
{
	int files = 0, threads = 0;

	for (int i = 0; i < ROUNDS; i++) {
		void *handle = opened();
		struct seen seen = see(handle);

		if (i == 0 || i == ROUNDS - 1)
			say("opened", seen);
		dlclose(handle);
		if (i == 0) {
			files = entries("/proc/self/fd");
			threads = entries("/proc/self/task");
		}
	}
	printf("files %+d threads %+d\n", entries("/proc/self/fd") - files,
	       entries("/proc/self/task") - threads);
}

static pthread_barrier_t together;

static void *thread_sees(void *slot)
{
	void *handle = opened();

	pthread_barrier_wait(&together);
	*(struct seen *)slot = see(handle);
	return NULL;
}

static void live_threads(void)
{
	pthread_t thread[THREADS];
	struct seen seen[THREADS];

	pthread_barrier_init(&together, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, thread_sees, &seen[i]) != 0)
			exit(2);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 1; i < THREADS; i++)
		if (memcmp(&seen[i], &seen[0], sizeof(seen[0])) != 0)
			say("another thread", seen[i]);
	say("all threads", seen[0]);
}

static void *late;

static void at_exit(void)
{
	say("at exit", see(late));
}

static void live_exit(void)
{
	late = opened();
	atexit(at_exit);
	say("before", see(late));
}

static void live_calls(void)
{
	static const char *const names[] = {"cuCtxGetCurrent", "cuLaunchKernel", "cuMemAdvise",
					    "cuMemAlloc_v2"};
	void *handle = opened();

	say("before", see(handle));
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		CUresult (*f)(void *, ...) = (CUresult(*)(void *, ...))symbol(handle, names[i]);

		printf("%s %d\n", names[i],
		       (int)f(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL));
	}
}

static void live_wait(void)
{
	void *handle = opened(), *address = NULL;
	api_fn_cuGetProcAddress *look_up =
		(api_fn_cuGetProcAddress *)symbol(handle, "cuGetProcAddress");

	say("before", see(handle));
	if (look_up("cuCtxGetCurrent", &address, 4000, 0) != CUDA_SUCCESS)
		exit(2);
	printf("cuCtxGetCurrent is at %p\n", address);
	fflush(stdout);
	while (getchar() != EOF) {
	}
	live_calls();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*live)(void);
	} lives[] = {{"fork", live_fork},	{"children", live_children}, {"close", live_close},
		     {"threads", live_threads}, {"exit", live_exit},	     {"calls", live_calls},
		     {"wait", live_wait}};

	library = argc == 3 ? argv[1] : "";
	for (size_t i = 0; i < sizeof(lives) / sizeof(*lives) && argc == 3; i++) {
		if (strcmp(argv[2], lives[i].name) != 0)
			continue;
		lives[i].live();
		return 0;
	}
	return 2;
}
