/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calling thread's signals, blocked for a while: all but two (32 and 33), which glibc keeps to
 * itself to end threads and to change the user of all. The kernel is called directly, as glibc's
 * function costs twice as many instructions, and samples of launches pay for it.
 */
#pragma once

#include <signal.h>
#include <stdint.h>

#include <sys/syscall.h>
#include <unistd.h>

struct signals {
	uint64_t blocked; /* the kernel's set */
};

static inline void signals_set(const struct signals *now, struct signals *ret_before)
{
	/* Fails for bad addresses only. */
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, now, ret_before, sizeof(now->blocked));
}

static inline void signals_block(struct signals *ret_before)
{
	static const struct signals all = {~(UINT64_C(3) << 31)};

	signals_set(&all, ret_before);
}

static inline void signals_restore(const struct signals *before)
{
	signals_set(before, NULL);
}
