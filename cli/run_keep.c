/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_keep.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/place.h"
#include "cli/daemon.h"

int run_keep(struct admin *admin, uint32_t tenant, pid_t child, struct fault *why)
{
	struct wire_message request = {.code = WIRE_tenant_keep}, answer;

	request.tenant_keep.tenant = tenant;
	request.tenant_keep.pid = (uint32_t)child;
	return admin_ask(admin, &request, &answer, why);
}

enum {
	AGAIN_MS = 250, /* nothing tells us when the system's meted is back */
	TELL_MISSED = 40,
};

static bool is_away(int r)
{
	return r == ADMIN_ABSENT || r == -ECONNRESET || r == -EPIPE || r == -ETIMEDOUT;
}

/* meted ended (an upgrade, a crash): keeps the tenant in the next one. A user's own meted is
 * started again; the system's is waited for, as a meted of our own would not know the tenant. */
static void keep_again(struct run_kept *it)
{
	struct fault why;
	int r;

	/* The next one may be killed as well. */
	do {
		admin_close(it->admin);
		r = it->system ? admin_connect(it->admin, PLACE_SYSTEM, &why)
			       : daemon_connect(it->admin, it->driver, it->pidfd, &why);
		if (r == 0)
			r = run_keep(it->admin, it->tenant, it->child, &why);
	} while (!it->system && (r == -ECONNRESET || r == -EPIPE));
	if (it->system && is_away(r)) {
		admin_close(it->admin);
		if (++it->missed == TELL_MISSED)
			fprintf(stderr,
				"mete run: note: the system's meted has been gone for %d s: the "
				"program keeps running, and `mete run` waits for the next meted\n",
				TELL_MISSED * AGAIN_MS / 1000);
		return;
	}
	it->missed = 0;
	if (r < 0 && r != -ECANCELED)
		fprintf(stderr, "mete run: meted is gone, but the program keeps running: %s\n",
			why.text);
}

void run_keep_until_end(struct run_kept *it)
{
	owned(close) int pidfd = (int)syscall(SYS_pidfd_open, it->child, 0);
	struct pollfd watched[] = {{.fd = pidfd, .events = POLLIN}, {.events = POLLIN}};

	it->pidfd = pidfd;
	if (pidfd < 0)
		return; /* then waitpid() waits, and a daemon that ends is not replaced */
	for (;;) {
		int n;

		watched[1].fd = it->admin->fd;
		watched[0].revents = watched[1].revents = 0;
		n = poll(watched, ARRAY_SIZE(watched), it->missed ? AGAIN_MS : -1);
		if ((n < 0 && errno != EINTR) || watched[0].revents)
			return;
		if (watched[1].revents)
			it->replaced++;
		if (watched[1].revents || n == 0)
			keep_again(it);
	}
}
