/* SPDX-License-Identifier: Apache-2.0 */
#include "base/process_child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/macros.h"

#ifndef SYS_close_range
#define SYS_close_range 436 /* Linux 5.9 */
#endif

enum { DESCRIPTORS = 1 << 20 };

static void close_others(int fd)
{
	if ((fd == 0 || syscall(SYS_close_range, 0, fd - 1, 0) == 0) &&
	    syscall(SYS_close_range, fd + 1, ~0u, 0) == 0)
		return;
	for (int i = 0; i < DESCRIPTORS; i++)
		if (i != fd)
			close(i);
}

void process_child_begin(int fd, pid_t parent, const char *name)
{
	static const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE};
	sigset_t none;

	best_effort(prctl(PR_SET_PDEATHSIG, SIGKILL));
	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++)
		signal(ignored[i], SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	best_effort(prctl(PR_SET_NAME, name));
	close_others(fd);
	if (getppid() != parent)
		_exit(0);
}
