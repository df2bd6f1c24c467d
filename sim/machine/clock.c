/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/machine/clock.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Waits shorter than this (on the host's clock) cost more time than they model. */
#define CLOCK_WORTH_NS	50000
#define CLOCK_CREDIT_NS 200000

static struct {
	_Atomic uint64_t factor;
} clock_state = {1};

static _Thread_local int64_t clock_debt_ns;

void clock_set_dilation(uint64_t factor)
{
	atomic_store_explicit(&clock_state.factor, factor ? factor : 1, memory_order_relaxed);
}

static uint64_t clock_factor(void)
{
	return atomic_load_explicit(&clock_state.factor, memory_order_relaxed);
}

uint64_t clock_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return ((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec) / clock_factor();
}

/* The host's time at which the clock reaches deadline_ns; false: never. */
static int clock_to_host(uint64_t deadline_ns, struct timespec *ret_host)
{
	uint64_t host_ns;

	if (__builtin_mul_overflow(deadline_ns, clock_factor(), &host_ns))
		return 0;
	/* Rounded up, as the division in clock_now_ns() rounds down. */
	host_ns += clock_factor() - 1;
	ret_host->tv_sec = (time_t)(host_ns / 1000000000);
	ret_host->tv_nsec = (long)(host_ns % 1000000000);
	return host_ns / 1000000000 < LONG_MAX;
}

int clock_wait_until(uint64_t deadline_ns, _Atomic uint32_t *word, uint32_t expected)
{
	static _Atomic uint32_t nobody;
	struct timespec host;
	int timed = clock_to_host(deadline_ns, &host);
	int saved = errno;
	long r;

	if (!word) {
		word = &nobody;
		expected = 0;
	}
	for (;;) {
		if (atomic_load_explicit(word, memory_order_acquire) != expected)
			return CLOCK_WOKEN;
		/* An absolute time-out, so that a signal does not lengthen the wait. */
		r = syscall(SYS_futex, (void *)word, FUTEX_WAIT_BITSET, expected,
			    timed ? &host : NULL, NULL, FUTEX_BITSET_MATCH_ANY);
		if (r == 0 || errno == EAGAIN) {
			errno = saved;
			if (word != &nobody)
				return CLOCK_WOKEN;
			continue;
		}
		if (errno != EINTR) {
			r = errno == ETIMEDOUT ? 0 : CLOCK_WOKEN;
			errno = saved;
			return (int)r;
		}
	}
}

void clock_wake(_Atomic uint32_t *word)
{
	int saved = errno;

	atomic_fetch_add_explicit(word, 1, memory_order_release);
	syscall(SYS_futex, (void *)word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	errno = saved;
}

void clock_spend(uint64_t cost_ns)
{
	int64_t factor = (int64_t)clock_factor();
	uint64_t start_ns;

	clock_debt_ns += (int64_t)cost_ns;
	if (clock_debt_ns < CLOCK_WORTH_NS / factor)
		return;
	start_ns = clock_now_ns();
	best_effort(clock_wait_until(start_ns + (uint64_t)clock_debt_ns, NULL, 0));
	clock_debt_ns -= (int64_t)(clock_now_ns() - start_ns);
	/* Time that the host overslept counts, within bounds: the next costs are lower by it.
	 * Without bounds a process that was stopped would then run for free. */
	if (clock_debt_ns < -CLOCK_CREDIT_NS / factor)
		clock_debt_ns = -CLOCK_CREDIT_NS / factor;
}
