/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/process/join.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <sys/mman.h>
#include <sys/syscall.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* Linux 4.14 */
#endif

#include "guest/driver/real.h"
#include "guest/futex.h"
#include "guest/process/pages.h"
#include "guest/process/parts.h"

/* The function behind pthread_atfork(), which is not exported by libc.so.6 itself. */
int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *dso);

static uint32_t thread_id(void)
{
	return (uint32_t)syscall(SYS_gettid);
}

/* 1: this process has joined, or the one of which it is a copy. In a copy struct state is empty,
 * however the copy was made. */
static _Atomic uint32_t has_joined;

/* A child of fork() is another guest: it must not write the parent's page, use its socket or
 * think that its threads are there. Joins again when it calls CUDA. */
static void forget_parts(void)
{
	int saved = errno;

	pages_clear();
	parts_forget();
	atomic_store(&has_joined, 0);
	errno = saved;
}

static void forget_all(void)
{
	memset(&state, 0, sizeof(state));
	forget_parts();
}

/* A direct call of clone() runs no handler: there the kernel empties struct state (Linux 4.14), and
 * the child forgets the rest when it joins. */
static void watch_forks(void)
{
	static _Atomic uint32_t watched;

	if (atomic_exchange(&watched, 1) == 0)
		best_effort(__register_atfork(NULL, NULL, forget_all, NULL));
	best_effort(syscall(SYS_madvise, &state, sizeof(state), MADV_WIPEONFORK));
}

static bool is_copy(void)
{
	return atomic_load(&has_joined) && !atomic_load(&state.has_joined);
}

/* A copy that was made unnoticed also has the driver's state, and the driver does not know: it
 * would attribute the copy's memory and contexts to the parent, and the copy would not charge them.
 * So such a copy gets the answer that the driver gives to a child of fork():
 * CUDA_ERROR_NOT_INITIALIZED. */
static _Atomic uint32_t driver_began;

void state_driver_begins(void)
{
	atomic_store(&driver_began, 1);
}

static int join(void)
{
	int r;

	if (is_copy())
		forget_parts();
	watch_forks();
	r = parts_start();
	if (r < 0)
		return r;
	atomic_store(&state.has_joined, 1);
	atomic_store(&has_joined, 1);
	return parts_await();
}

CUresult state_ready(void)
{
	uint32_t was = atomic_load_explicit(&state.join, memory_order_acquire);
	CUresult r;
	int saved;

	if (likely(was == STATE_JOINED))
		return CUDA_SUCCESS;
	r = real_open();
	if (r != CUDA_SUCCESS)
		return r;
	saved = errno;
	was = STATE_NEW;
	if (atomic_compare_exchange_strong(&state.join, &was, STATE_JOINING)) {
		atomic_store(&state.joiner, thread_id());
		if (is_copy() && atomic_load(&driver_began))
			r = CUDA_ERROR_NOT_INITIALIZED;
		else if (join() < 0)
			r = CUDA_ERROR_SYSTEM_NOT_READY;
		atomic_store(&state.error, (int)r);
		was = r == CUDA_SUCCESS ? STATE_JOINED : STATE_REFUSED;
		atomic_store(&state.join, was);
		futex_wake_all(&state.join);
	}
	while (was == STATE_JOINING || was == STATE_NEW) {
		if (atomic_load(&state.joiner) == thread_id())
			break;
		futex_wait(&state.join, STATE_JOINING, 100, FUTEX_PRIVATE_FLAG);
		was = atomic_load(&state.join);
	}
	errno = saved;
	return was == STATE_REFUSED ? (CUresult)atomic_load(&state.error) : CUDA_SUCCESS;
}

void state_retry(void)
{
	uint32_t was = STATE_REFUSED;

	atomic_compare_exchange_strong(&state.join, &was, STATE_NEW);
}
