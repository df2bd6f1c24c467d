/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unwinds at each instruction of calls through a library: single-steps them, and at each step asks
 * an unwinder for the callers. One line per call and unwinder:
 *
 *	step LIBRARY
 *	cuMemcpy gcc = 3: 16 in guest, 0 astray; 161 in driver, 0 astray; 0 elsewhere, 0 astray
 *
 * `planted` is a function here that says nothing of its frame: so that a test can see steps astray.
 * Astray is a step at which the caller is not found. Unwinders are that of the compiler
 * (exceptions, backtrace(), pthread_cancel()) and libunwind, where its libunwind.so.8 is there.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unwind.h>

#include "cuda/probe.h"
#include "cuda/prototypes.h"

enum {
	IN_GUEST,
	IN_DRIVER,
	ELSEWHERE,
	PLACES,
	FRAMES = 64,
	TRAP_FLAG = 0x100,
	LIBUNWIND_SIGNAL_FRAME = 1,
	LIBUNWIND_IP = 16,
	LIBUNWIND_CURSOR_WORDS = 127,
};

#define CALLER __attribute__((section("callers"), noinline))

extern const char __start_callers[], __stop_callers[];

typedef CUresult any_function(void *, void *, void *, void *, void *, void *, void *, void *,
			      void *, void *, void *);

static const char *guest_begin, *driver_begin;
static volatile bool stepping;
static long steps[PLACES], astray[PLACES];

static int (*libunwind_init)(unsigned long *, ucontext_t *, int);
static int (*libunwind_step)(unsigned long *);
static int (*libunwind_get)(unsigned long *, int, unsigned long *);
static bool by_libunwind;

static bool is_caller(unsigned long ip)
{
	return ip > (unsigned long)__start_callers && ip <= (unsigned long)__stop_callers;
}

static _Unwind_Reason_Code look(struct _Unwind_Context *context, void *found)
{
	*(bool *)found = is_caller(_Unwind_GetIP(context));
	return *(bool *)found ? _URC_END_OF_STACK : _URC_NO_REASON;
}

static bool finds_caller(ucontext_t *at)
{
	unsigned long cursor[LIBUNWIND_CURSOR_WORDS], ip;
	bool found = false;

	if (!by_libunwind) {
		_Unwind_Backtrace(look, &found);
		return found;
	}
	if (libunwind_init(cursor, at, LIBUNWIND_SIGNAL_FRAME) != 0)
		return false;
	for (int i = 0; i < FRAMES && libunwind_step(cursor) > 0; i++)
		if (libunwind_get(cursor, LIBUNWIND_IP, &ip) == 0 && is_caller(ip))
			return true;
	return false;
}

static int place_of(unsigned long ip)
{
	Dl_info about;

	if (!dladdr((void *)ip, &about))
		return ELSEWHERE;
	return about.dli_fbase == guest_begin	 ? IN_GUEST
	       : about.dli_fbase == driver_begin ? IN_DRIVER
						 : ELSEWHERE;
}

static void at_step(int number, siginfo_t *about, void *context)
{
	ucontext_t *at = context;
	unsigned long ip = (unsigned long)at->uc_mcontext.gregs[REG_RIP];
	int place;

	(void)number, (void)about;
	if (!stepping) {
		at->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
		return;
	}
	if (is_caller(ip))
		return;
	place = place_of(ip);
	steps[place]++;
	if (!finds_caller(at))
		astray[place]++;
}

static CALLER CUresult call(any_function *f)
{
	CUresult r;

	stepping = true;
	__asm__ volatile("pushf; orq %0, (%%rsp); popf" ::"i"(TRAP_FLAG) : "memory", "cc");
	r = f(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
	stepping = false;
	__asm__ volatile("nop" ::: "memory");
	return r;
}

CUresult planted(void);
__asm__(".text\n.type planted, @function\nplanted:\n\tpush %rbx\n\tsub $64, %rsp\n\tnop\n"
	"\tadd $64, %rsp\n\tpop %rbx\n\tmov $0, %eax\n\tret\n.size planted, . - planted");

static void *begin_of(const void *address)
{
	Dl_info about;

	return address && dladdr(address, &about) ? about.dli_fbase : NULL;
}

static void find_places(void *handle)
{
	api_fn_cuGetProcAddress *look_up =
		(api_fn_cuGetProcAddress *)dlsym(handle, "cuGetProcAddress");
	void *answer = NULL;

	if (look_up(PROBE_NAME, &answer, 0, 0) == CUDA_SUCCESS)
		guest_begin = begin_of(answer);
	/* A function that is only passed on is the driver's own. */
	if (look_up("cuCtxGetCurrent", &answer, 4000, 0) == CUDA_SUCCESS)
		driver_begin = begin_of(answer);
}

static bool find_libunwind(void)
{
	void *handle = dlopen("libunwind.so.8", RTLD_NOW);

	if (!handle)
		return false;
	*(void **)&libunwind_init = dlsym(handle, "_ULx86_64_init_local2");
	*(void **)&libunwind_step = dlsym(handle, "_ULx86_64_step");
	*(void **)&libunwind_get = dlsym(handle, "_ULx86_64_get_reg");
	return libunwind_init && libunwind_step && libunwind_get;
}

static void step(any_function *f, const char *name)
{
	CUresult r;

	memset(steps, 0, sizeof(steps));
	memset(astray, 0, sizeof(astray));
	r = call(f);
	printf("%s %s = %d: %ld in guest, %ld astray; %ld in driver, %ld astray; %ld elsewhere, "
	       "%ld astray\n",
	       name, by_libunwind ? "libunwind" : "gcc", (int)r, steps[IN_GUEST], astray[IN_GUEST],
	       steps[IN_DRIVER], astray[IN_DRIVER], steps[ELSEWHERE], astray[ELSEWHERE]);
}

int main(int argc, char **argv)
{
	/* One of each kind of trampoline that ends soon without a device. */
	static const char *const names[] = {
		"cuCtxGetCurrent", "cuLaunchKernel",	  "cuMemcpy",	  "cuMemAdvise",
		"cuMemAlloc_v2",   "cuStreamSynchronize", "cuMemFree_v2", "cuGraphAddKernelNode"};
	struct sigaction action = {.sa_sigaction = at_step, .sa_flags = SA_SIGINFO};
	void *handle = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	bool has_libunwind = find_libunwind();

	if (!handle)
		return 2;
	((api_fn_cuInit *)dlsym(handle, "cuInit"))(0);
	find_places(handle);
	sigaction(SIGTRAP, &action, NULL);
	for (int way = 0; way <= has_libunwind; way++) {
		by_libunwind = way;
		for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
			step((any_function *)dlsym(handle, names[i]), names[i]);
		step((any_function *)(void *)planted, "planted");
	}
	if (!has_libunwind)
		printf("no libunwind\n");
	return 0;
}
