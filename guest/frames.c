/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/frames.h"

#include <errno.h>
#include <signal.h>

#include <sys/syscall.h>
#include <unistd.h>

static bool within(const stack_t *stack, uintptr_t address)
{
	uintptr_t base = (uintptr_t)stack->ss_sp;

	return address >= base && address - base < stack->ss_size;
}

bool frames_left(uintptr_t then, uintptr_t here)
{
	int saved = errno;
	stack_t own = {.ss_flags = SS_DISABLE};
	bool known = syscall(SYS_sigaltstack, NULL, &own) == 0 && !(own.ss_flags & SS_DISABLE);

	errno = saved;
	if (known && within(&own, here) != within(&own, then))
		return within(&own, then);
	return here >= then;
}
