/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into everything that a test starts: kills (SIGKILL) the first meted that comes to its
 * DIE_AT-th call of the kind below. It makes the file DIE_MARK then, and later ones live.
 *
 * What meted does before it is ready, and for its first clients, is a series of such calls: a test
 * that counts through them kills it at each step.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define visible __attribute__((visibility("default")))

/* open() is one of the calls that are counted. */
static int open_really(const char *path, int flags, mode_t mode)
{
	int (*next)(int, const char *, int, ...);

	*(void **)&next = dlsym(RTLD_NEXT, "openat");
	return next(AT_FDCWD, path, flags, mode);
}

static void step(void)
{
	static long at = -2, count;
	const char *mark = getenv("DIE_MARK");
	int fd;

	if (at == -2)
		at = strcmp(program_invocation_short_name, "meted") == 0 && getenv("DIE_AT")
			     ? strtol(getenv("DIE_AT"), NULL, 10)
			     : -1;
	if (at < 0 || !mark || __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED) != at)
		return;
	fd = open_really(mark, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
	if (fd >= 0)
		raise(SIGKILL);
}

#define STEP(type, name, parameters, arguments)                                                    \
	visible type name parameters;                                                              \
	visible type name parameters                                                               \
	{                                                                                          \
		type(*next) parameters;                                                            \
                                                                                                   \
		step();                                                                            \
		*(void **)&next = dlsym(RTLD_NEXT, #name);                                         \
		return next arguments;                                                             \
	}

STEP(int, mkdir, (const char *path, mode_t mode), (path, mode))
STEP(int, rmdir, (const char *path), (path))
STEP(int, flock, (int fd, int how), (fd, how))
STEP(int, socket, (int domain, int type, int protocol), (domain, type, protocol))
STEP(int, bind, (int fd, __CONST_SOCKADDR_ARG address, socklen_t size), (fd, address, size))
STEP(int, listen, (int fd, int backlog), (fd, backlog))
STEP(int, accept4, (int fd, __SOCKADDR_ARG address, socklen_t *size, int flags),
     (fd, address, size, flags))
STEP(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
STEP(ssize_t, send, (int fd, const void *bytes, size_t size, int flags), (fd, bytes, size, flags))
STEP(ssize_t, sendto,
     (int fd, const void *bytes, size_t size, int flags, __CONST_SOCKADDR_ARG address,
      socklen_t room),
     (fd, bytes, size, flags, address, room))
STEP(ssize_t, write, (int fd, const void *bytes, size_t size), (fd, bytes, size))
STEP(int, rename, (const char *from, const char *to), (from, to))
STEP(int, unlink, (const char *path), (path))

/* What open() is called where files may be large: in meted and in libuv. */
visible int open64(const char *path, int flags, ...);
visible int open64(const char *path, int flags, ...)
{
	va_list arguments;
	mode_t mode;

	va_start(arguments, flags);
	mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
	va_end(arguments);
	step();
	return open_really(path, flags, mode);
}
