/* SPDX-License-Identifier: Apache-2.0 */
/* Event loops, locks and plug-ins: what a program's own threads do between two launches. */
#include <dlfcn.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include "tests/guest/turns_traps.h"

enum { STAGES = 4, TICK_NS = 500000 };

static void work_in(int stream)
{
	traps_launch(0, stream, g.device[0].spend, 100000);
	ok(g.cuStreamSynchronize(g.device[0].stream[stream]));
}

/* ---- one thread asks its streams in turn, and launches in the one that is ready -----------------
 */

void trap_polled(void)
{
	CUstream *stream = g.device[0].stream;
	unsigned stage = 0;

	traps_launch(0, 0, g.device[0].wait, g.round);
	while (g.cuStreamQuery(stream[0]) == CUDA_ERROR_NOT_READY) {
		if (g.cuStreamQuery(stream[1]) == CUDA_ERROR_NOT_READY)
			sched_yield();
		else if (stage++ < STAGES)
			traps_launch(0, 1, g.device[0].spend, 100000);
		else
			atomic_store(g.word, g.round);
	}
	ok(g.cuCtxSynchronize());
}

/* ---- a callback posts to the condition on which the launching thread waits with another's lock -
 */

static struct {
	pthread_mutex_t state, others;
	pthread_cond_t posted;
	unsigned calls;
} c = {.state = PTHREAD_MUTEX_INITIALIZER,
       .others = PTHREAD_MUTEX_INITIALIZER,
       .posted = PTHREAD_COND_INITIALIZER};

static void post(CUstream stream, CUresult status, void *nothing)
{
	(void)stream;
	(void)status;
	(void)nothing;
	pthread_mutex_lock(&c.state);
	c.calls++;
	pthread_cond_signal(&c.posted);
	pthread_mutex_unlock(&c.state);
}

/* It needs the lock that the launching thread has while it waits. */
static void *launch_with_the_lock(void *nothing)
{
	(void)nothing;
	traps_use_device();
	pthread_mutex_lock(&c.others);
	traps_launch(0, 1, g.device[0].spend, 100000);
	ok(g.cuStreamAddCallback(g.device[0].stream[1], post, NULL, 0));
	pthread_mutex_unlock(&c.others);
	return NULL;
}

static void await_calls(unsigned calls)
{
	pthread_mutex_lock(&c.state);
	while (c.calls < calls)
		pthread_cond_wait(&c.posted, &c.state);
	pthread_mutex_unlock(&c.state);
}

void trap_condition(void)
{
	unsigned first = c.calls;
	pthread_t thread;

	pthread_mutex_lock(&c.others);
	traps_thread(launch_with_the_lock, &thread);
	for (unsigned i = 1; i <= STAGES; i++) {
		traps_launch(0, 0, g.device[0].spend, 100000);
		ok(g.cuStreamAddCallback(g.device[0].stream[0], post, NULL, 0));
		await_calls(first + i);
	}
	traps_launch(0, 0, g.device[0].wait, g.round);
	pthread_mutex_unlock(&c.others);
	await_calls(first + STAGES + 1);
	atomic_store(g.word, g.round);
	ok(g.cuStreamSynchronize(g.device[0].stream[0]));
	pthread_join(thread, NULL);
}

/* ---- an event loop: host functions and a timer wake it, and it launches ------------------------
 */

static struct {
	int epoll, done, timer;
} loop = {.epoll = -1};

static void watch(int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	if (fd < 0 || epoll_ctl(loop.epoll, EPOLL_CTL_ADD, fd, &event) != 0)
		fail("no event loop");
}

static void begin_loop(void)
{
	loop.epoll = epoll_create1(EPOLL_CLOEXEC);
	watch(loop.done = eventfd(0, EFD_CLOEXEC));
	watch(loop.timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
}

static void set_timer(uint64_t ns)
{
	struct itimerspec when = {.it_value = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)}};

	when.it_interval = when.it_value;
	timerfd_settime(loop.timer, 0, &when, NULL);
}

static void say_done(void *nothing)
{
	uint64_t one = 1;

	(void)nothing;
	if (write(loop.done, &one, sizeof(one)) != sizeof(one))
		fail("the loop does not hear");
}

static void launch_and_tell(void)
{
	traps_launch(0, 1, g.device[0].spend, 100000);
	ok(g.cuLaunchHostFunc(g.device[0].stream[1], say_done, NULL));
}

void trap_reactor(void)
{
	struct epoll_event event;
	unsigned ends = 0;
	uint64_t times;

	if (loop.epoll < 0)
		begin_loop();
	traps_launch(0, 0, g.device[0].wait, g.round);
	launch_and_tell();
	set_timer((uint64_t)TICK_NS * g.slow);
	while (ends < STAGES) {
		if (epoll_wait(loop.epoll, &event, 1, -1) != 1 ||
		    read(event.data.fd, &times, sizeof(times)) != sizeof(times))
			continue;
		if (event.data.fd == loop.timer)
			traps_launch(0, 1, g.device[0].spend, 50000);
		else if (++ends < STAGES)
			launch_and_tell();
	}
	set_timer(0);
	atomic_store(g.word, g.round);
	ok(g.cuCtxSynchronize());
}

/* ---- a thread sleeps in a context that waits without polling, and a kernel of another one polls -
 */

static struct {
	CUcontext context;
	CUstream stream;
	CUevent event;
} sleeping;

static void begin_sleeping(void)
{
	ok(g.cuCtxCreate_v2(&sleeping.context, CU_CTX_SCHED_BLOCKING_SYNC, 0));
	ok(g.cuStreamCreate(&sleeping.stream, CU_STREAM_NON_BLOCKING));
	ok(g.cuEventCreate(&sleeping.event, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING));
}

/* The stream waits for the kernel of the other context, and the thread for the stream. */
static void *sleep_in_context(void *event)
{
	ok(g.cuCtxSetCurrent(sleeping.context));
	ok(g.cuStreamWaitEvent(sleeping.stream, event, 0));
	ok(g.cuEventRecord(sleeping.event, sleeping.stream));
	ok(g.cuEventSynchronize(sleeping.event));
	ok(g.cuCtxSynchronize());
	return NULL;
}

static void *work_then_write(void *nothing)
{
	(void)nothing;
	traps_use_device();
	for (int i = 0; i < STAGES; i++)
		work_in(1);
	atomic_store(g.word, g.round);
	return NULL;
}

void trap_sleeps(void)
{
	static CUevent polled;
	pthread_t sleeper;

	if (!sleeping.context) {
		ok(g.cuEventCreate(&polled, CU_EVENT_DISABLE_TIMING));
		begin_sleeping();
		traps_use_device();
	}
	traps_launch(0, 0, g.device[0].wait, g.round);
	ok(g.cuEventRecord(polled, g.device[0].stream[0]));
	if (pthread_create(&sleeper, NULL, sleep_in_context, polled) != 0)
		fail("no thread");
	traps_finish(work_then_write);
	pthread_join(sleeper, NULL);
}

/* ---- memory is mapped and unmapped while a kernel waits for that -------------------------------
 */

static void *map_and_unmap(void *nothing)
{
	enum { SIZE = 4 << 20 };
	CUmemAllocationProp_v1 what = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
				       .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemAccessDesc_v1 access = {what.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle_v1 handle;
	CUdeviceptr at;

	(void)nothing;
	traps_use_device();
	ok(g.cuMemAddressReserve(&at, SIZE, 0, 0, 0));
	ok(g.cuMemCreate(&handle, SIZE, &what, 0));
	ok(g.cuMemMap(at, SIZE, 0, handle, 0));
	ok(g.cuMemSetAccess(at, SIZE, &access, 1));
	ok(g.cuMemsetD8Async(at, 1, SIZE, g.device[0].stream[1]));
	work_in(1);
	ok(g.cuMemUnmap(at, SIZE));
	ok(g.cuMemRelease(handle));
	ok(g.cuMemAddressFree(at, SIZE));
	atomic_store(g.word, g.round);
	return NULL;
}

void trap_mapping(void)
{
	traps_launch(0, 0, g.device[0].wait, g.round);
	traps_finish(map_and_unmap);
}

/* ---- a plug-in opens the driver for itself, works in the primary context, and goes again --------
 */

static void *plug_in(void *nothing)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	api_fn_cuGetProcAddress_v2 *find;
	api_fn_cuDevicePrimaryCtxRetain *retain;
	api_fn_cuDevicePrimaryCtxRelease_v2 *release;
	CUdriverProcAddressQueryResult how;
	CUcontext primary;
	CUstream stream;

	(void)nothing;
	if (!driver || !(find = (api_fn_cuGetProcAddress_v2 *)dlsym(driver, "cuGetProcAddress_v2")))
		fail("no driver for the plug-in");
	ok(find("cuDevicePrimaryCtxRetain", (void **)&retain, 12000, 0, &how));
	ok(find("cuDevicePrimaryCtxRelease", (void **)&release, 12000, 0, &how));
	ok(retain(&primary, 0));
	ok(g.cuCtxSetCurrent(primary));
	ok(g.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ok(g.cuStreamDestroy_v2(stream));
	traps_use_device();
	work_in(1);
	ok(g.cuCtxSetCurrent(NULL));
	ok(release(0));
	dlclose(driver);
	atomic_store(g.word, g.round);
	return NULL;
}

void trap_plug_in(void)
{
	traps_launch(0, 0, g.device[0].wait, g.round);
	traps_finish(plug_in);
}
