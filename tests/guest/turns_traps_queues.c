/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that take work from queues, and that wait for each other's locks on the device. */
#include <sched.h>
#include <string.h>

#include "tests/guest/turns_traps.h"

enum { ITEMS = 12, PRODUCERS = 3, REQUESTS = 4, BLOCKS = 4 };

/* serve(from, to, last): for each number until the last waits until *from is at least it, works and
 * says so in *to. locked(words, value): takes the lock in the first word, waits until the second
 * one is at least the value, and lets go. meet(word, value): a grid's barrier. */
static const char ptx[] =
	".version 6.5\n.target sm_70\n.address_size 64\n"
	".visible .entry serve(.param .u64 f, .param .u64 t, .param .u32 n, .param .u32 l) {\n"
	".reg .u64 %f, %t; .reg .u32 %x, %n, %l; .reg .pred %q;\n"
	"ld.param.u64 %f, [f]; ld.param.u64 %t, [t]; ld.param.u32 %n, [n]; ld.param.u32 %l, [l];\n"
	"N: ld.volatile.u32 %x, [%f]; setp.ge.u32 %q, %x, %n; @%q bra W;\n"
	"nanosleep.u32 20000; bra N;\n"
	"W: nanosleep.u32 50000; st.volatile.u32 [%t], %n; setp.ge.u32 %q, %n, %l;\n"
	"add.u32 %n, %n, 1; @!%q bra N; ret; }\n"
	".visible .entry locked(.param .u64 p, .param .u64 w, .param .u32 v) {\n"
	".reg .u64 %a, %w; .reg .u32 %x, %v; .reg .pred %q;\n"
	"ld.param.u64 %a, [p]; ld.param.u64 %w, [w]; ld.param.u32 %v, [v];\n"
	"T: atom.global.cas.b32 %x, [%a], 0, 1; setp.eq.u32 %q, %x, 0; @%q bra L;\n"
	"nanosleep.u32 20000; bra T;\n"
	"L: nanosleep.u32 20000; ld.volatile.u32 %x, [%w];\n"
	"setp.lt.u32 %q, %x, %v; @%q bra L;\n"
	"atom.global.exch.b32 %x, [%a], 0; ret; }\n"
	".visible .entry meet(.param .u64 p, .param .u32 v) {\n"
	".reg .u64 %a; .reg .u32 %x, %v; .reg .pred %q;\n"
	"ld.param.u64 %a, [p]; ld.param.u32 %v, [v]; atom.global.add.u32 %x, [%a], 1;\n"
	"L: nanosleep.u32 20000; ld.volatile.u32 %x, [%a];\n"
	"setp.lt.u32 %q, %x, %v; @%q bra L; ret; }\n";

static CUfunction kernel(const char *name)
{
	static CUmodule module;

	return traps_kernel_of(&module, ptx, name);
}

static void serve(CUdeviceptr from, CUdeviceptr to, uint32_t first, uint32_t last, CUstream stream)
{
	static CUfunction served;

	if (!served)
		served = kernel("serve");
	ok(g.cuLaunchKernel(served, 1, 1, 1, 1, 1, 1, 0, stream,
			    (void *[]){&from, &to, &first, &last}, NULL));
}

/* ---- several threads put work into one queue; what one of them puts there it has computed -------
 */

static struct {
	pthread_mutex_t lock;
	uint32_t put;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void put(void)
{
	pthread_mutex_lock(&queue.lock);
	atomic_store(g.word, ++queue.put);
	pthread_mutex_unlock(&queue.lock);
}

static void *put_some(void *computes)
{
	traps_use_device();
	for (int i = 0; i < ITEMS / PRODUCERS; i++) {
		if (computes) {
			traps_launch(0, 1, g.device[0].spend, 50000);
			ok(g.cuStreamSynchronize(g.device[0].stream[1]));
		}
		put();
	}
	return NULL;
}

void trap_producers(void)
{
	pthread_t thread[PRODUCERS];

	serve(g.address, g.address + 4, (g.round - 1) * ITEMS + 1, g.round * ITEMS,
	      g.device[0].stream[0]);
	for (uintptr_t i = 0; i < PRODUCERS; i++)
		if (pthread_create(&thread[i], NULL, put_some, (void *)(i % 2)) != 0)
			fail("no thread");
	for (int i = 0; i < PRODUCERS; i++)
		pthread_join(thread[i], NULL);
	ok(g.cuStreamSynchronize(g.device[0].stream[0]));
}

/* ---- kernels of three threads spin for one lock, and its holder for what a fourth one writes ----
 */

static struct {
	CUdeviceptr lock;
	CUfunction kernel;
	CUstream stream[PRODUCERS];
} spinning;

static void *spin(void *place)
{
	CUstream stream = spinning.stream[(uintptr_t)place];

	traps_use_device();
	ok(g.cuLaunchKernel(spinning.kernel, 1, 1, 1, 1, 1, 1, 0, stream,
			    (void *[]){&spinning.lock, &g.address, &g.round}, NULL));
	ok(g.cuStreamSynchronize(stream));
	return NULL;
}

void trap_spins(void)
{
	pthread_t thread[PRODUCERS];

	if (!spinning.lock) {
		spinning.lock = traps_new_words();
		spinning.kernel = kernel("locked");
		for (int i = 0; i < PRODUCERS; i++)
			ok(g.cuStreamCreate(&spinning.stream[i], CU_STREAM_NON_BLOCKING));
	}
	for (uintptr_t i = 0; i < PRODUCERS; i++)
		if (pthread_create(&thread[i], NULL, spin, (void *)i) != 0)
			fail("no thread");
	traps_pause();
	traps_launch_and_say(NULL);
	for (int i = 0; i < PRODUCERS; i++)
		pthread_join(thread[i], NULL);
}

/* ---- one kernel for the program's life, in memory of the device: copies ask it, and look --------
 */

void trap_peeks(void)
{
	static CUdeviceptr words;
	static uint32_t *asked, *seen;
	CUstream stream = g.device[0].stream[1];

	if (!words) {
		words = traps_new_words();
		asked = (uint32_t *)(void *)&g.word[2];
		seen = (uint32_t *)(void *)&g.word[3];
		serve(words, words + 4, 1, UINT32_MAX, g.device[0].stream[0]);
	}
	*asked = g.round;
	ok(g.cuMemcpyHtoDAsync_v2(words, asked, 4, stream));
	do {
		ok(g.cuMemcpyDtoHAsync_v2(seen, words + 4, 4, stream));
		ok(g.cuStreamSynchronize(stream));
	} while (*seen < g.round);
}

/* ---- a kernel of low priority goes on while requests of a high one come, and is told the end ----
 */

static void *request(void *nothing)
{
	static struct traps_place high;

	(void)nothing;
	traps_use_device();
	if (!high.stream) {
		traps_load(&high);
		ok(g.cuStreamCreateWithPriority(&high.stream, CU_STREAM_NON_BLOCKING, -5));
	}
	for (int i = 0; i < REQUESTS; i++) {
		traps_rest_us(200);
		traps_launch_at(&high, high.spend, 50000);
		ok(g.cuStreamSynchronize(high.stream));
	}
	atomic_store(g.word, g.round);
	return NULL;
}

void trap_background(void)
{
	static struct traps_place low;

	if (!low.stream) {
		traps_load(&low);
		ok(g.cuStreamCreateWithPriority(&low.stream, CU_STREAM_NON_BLOCKING, 0));
	}
	traps_launch_at(&low, low.wait, g.round);
	traps_finish(request);
}

/* ---- blocks of a grid wait for each other, and for those of a grid that another thread launches -
 */

static struct {
	CUdeviceptr at;
	CUfunction kernel;
	uint32_t due;
} grids;

static void launch_grid(int stream)
{
	ok(g.cuLaunchCooperativeKernel(grids.kernel, BLOCKS, 1, 1, 1, 1, 1, 0,
				       g.device[0].stream[stream],
				       (void *[]){&grids.at, &grids.due}));
}

static void *launch_other_grid(void *nothing)
{
	(void)nothing;
	traps_use_device();
	launch_grid(1);
	ok(g.cuStreamSynchronize(g.device[0].stream[1]));
	return NULL;
}

void trap_grids(void)
{
	if (!grids.at) {
		grids.at = traps_new_words();
		grids.kernel = kernel("meet");
	}
	grids.due += 2 * BLOCKS;
	launch_grid(0);
	traps_finish(launch_other_grid);
}
