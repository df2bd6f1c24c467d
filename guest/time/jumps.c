/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/time/jumps.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "guest/driver/real.h"

enum {
	WORDS = 512,		  /* read at a time */
	DEEPEST_BYTES = 32 << 20, /* of a stack that is read */
};

/* Defined in trampolines.S. */
extern const char guest_entries[], guest_entries_end[];

static bool is_entry(uintptr_t word)
{
	for (unsigned i = 0; i < API_ROWS; i++)
		if (word == (uintptr_t)guest_export(i))
			return true;
	return false;
}

/* Is it an address inside a trampoline: a return address, or the place where a signal arrived? The
 * address of an entry itself does not count, as the program has such pointers. */
static bool is_inside(uintptr_t word)
{
	return word >= (uintptr_t)guest_entries && word < (uintptr_t)guest_entries_end &&
	       !is_entry(word);
}

/* Reads up to an unreadable page, which is not far above a stack: a guard page, or its end. */
static bool holds_inside(uintptr_t from, bool *ret_whole)
{
	uintptr_t words[WORDS];
	uintptr_t end = from + DEEPEST_BYTES;

	for (uintptr_t at = from; at < end;) {
		/* Reads never cross a page's end, so that every readable page is read. */
		size_t bytes = sizeof(words) - (at & (sizeof(words) - 1));
		struct iovec to = {words, bytes}, source = {(void *)at, bytes};
		long got = syscall(SYS_process_vm_readv, getpid(), &to, 1UL, &source, 1UL, 0UL);

		if (got < 0 && errno != EFAULT)
			return false;
		*ret_whole = got <= 0 && at != from;
		if (got <= 0)
			return false;
		for (long i = 0; i < got / (long)sizeof(words[0]); i++)
			if (is_inside(words[i]))
				return true;
		at += (uintptr_t)got;
	}
	return false;
}

bool jumps_left(uintptr_t stack)
{
	stack_t own = {.ss_flags = SS_ONSTACK};
	bool whole = false, found = true;
	int saved = errno;

	if (syscall(SYS_sigaltstack, NULL, &own) == 0 && !(own.ss_flags & SS_ONSTACK))
		found = holds_inside(stack & ~(uintptr_t)7, &whole);
	errno = saved;
	return whole && !found;
}
