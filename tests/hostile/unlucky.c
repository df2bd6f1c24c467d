/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that is preloaded before the guest and wraps the C library: each third call of what
 * speaks to others fails, as it could, though it never does at the same time everywhere.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/macros.h"

static unsigned calls;

static bool unlucky(int error)
{
	if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % 3)
		return false;
	errno = error;
	return true;
}

#define WRAP(type, name, error, failed, parameters, arguments)                                     \
	exported type name parameters;                                                             \
	type name parameters                                                                       \
	{                                                                                          \
		static type(*next) parameters;                                                     \
                                                                                                   \
		if (!next)                                                                         \
			next = (type(*) parameters)dlsym(RTLD_NEXT, #name);                        \
		return unlucky(error) ? (type)(failed) : next arguments;                           \
	}

WRAP(ssize_t, send, EAGAIN, -1, (int fd, const void *data, size_t n, int flags),
     (fd, data, n, flags))
WRAP(ssize_t, sendmsg, EINTR, -1, (int fd, const struct msghdr *message, int flags),
     (fd, message, flags))
WRAP(ssize_t, recv, EINTR, -1, (int fd, void *data, size_t n, int flags), (fd, data, n, flags))
WRAP(ssize_t, recvmsg, EINTR, -1, (int fd, struct msghdr *message, int flags), (fd, message, flags))
WRAP(int, poll, EINTR, -1, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms))
WRAP(int, eventfd, EMFILE, -1, (unsigned first, int flags), (first, flags))
WRAP(int, socket, EMFILE, -1, (int domain, int type, int protocol), (domain, type, protocol))
WRAP(int, munmap, ENOMEM, -1, (void *at, size_t n), (at, n))
WRAP(int, mprotect, ENOMEM, -1, (void *at, size_t n, int how), (at, n, how))
WRAP(int, pthread_create, EAGAIN, EAGAIN,
     (pthread_t * ret, const pthread_attr_t *how, void *(*run)(void *), void *with),
     (ret, how, run, with))
