/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/driver/driver_file.h"

#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/place.h"
#include "guest/clock.h"
#include "guest/say.h"
#include "guest/socket.h"

/* If a node mounts the driver, this file exists. */
#define MOUNTED PLACE_DRIVER "/libcuda.so.1"

enum {
	WAIT_MS = 5000, /* for a daemon that is being restarted: as long as joining waits */
	PAUSE_MS = 20,
	ANSWER_MS = 10000,
};

static const char *const names[WIRE_LIBRARIES] = {
	[WIRE_LIBRARY_CUDA] = "libcuda.so.1",
	[WIRE_LIBRARY_NVML] = "libnvidia-ml.so.1",
};

/* fstatat() and access() as system calls, since stat() of glibc 2.28 is no symbol of its own. */
static bool is_folder(const char *path)
{
	struct stat about;

	return syscall(SYS_newfstatat, AT_FDCWD, path, &about, 0) == 0 && S_ISDIR(about.st_mode);
}

static bool is_there(const char *path)
{
	return syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
}

/* ---- by descriptor --------------------------------------------------------------------------- */

/* The question, and the answer to it. Not on the stack, since a thread that calls the driver first
 * may have 16 KiB; a library is opened by one thread alone. */
static struct wire_message exchanged[WIRE_LIBRARIES];

/* These errors last; others may be gone in a few seconds. */
static bool is_final(uint32_t refusal)
{
	return refusal == WIRE_REFUSED_UNKNOWN || refusal == WIRE_REFUSED_IDENTITY;
}

/* 0; -EAGAIN: not now; <0: no. The answer takes the question's place. */
static int hear(const struct socket *socket, struct wire_message *message, int *ret_fd,
		wire_text *ret_sentence)
{
	uint64_t end = now_ns() + ANSWER_MS * UINT64_C(1000000);
	int fds[2] = {-1, -1}, r;

	/* A signal ends a wait early. */
	while ((r = socket_wait(socket, POLLIN, ANSWER_MS * 1000)) == 0 && now_ns() < end) {
	}
	if (r == 0)
		return -ETIMEDOUT;
	if (r < 0 || socket_receive(socket, message, fds) != 0)
		return -EAGAIN;
	if (message->code == WIRE_driver_file && fds[0] >= 0) {
		*ret_fd = fds[0];
		return 0;
	}
	if (message->code != WIRE_refused)
		return -EPROTO;
	*ret_sentence = message->refused.reason;
	return is_final(message->refused.code) ? -ENOENT : -EAGAIN;
}

static int ask(enum wire_library library, int *ret_fd, wire_text *ret_sentence)
{
	struct wire_message *message = &exchanged[library];
	struct socket socket;
	int r = socket_connect(PLACE_GUEST_SOCKET, &socket);

	if (r < 0) {
		wire_set_text(ret_sentence, socket_reason(r));
		return r == -ECONNREFUSED ? -EAGAIN : r;
	}
	wire_begin(message, WIRE_driver_ask, 1);
	message->driver_ask.library = library;
	r = socket_send(&socket, message) < 0 ? -EAGAIN
					      : hear(&socket, message, ret_fd, ret_sentence);
	socket_close(&socket);
	return r;
}

/* Asks again: meted may be being replaced, or have too many connections at once. */
static int ask_in_time(enum wire_library library, int *ret_fd, wire_text *ret_sentence)
{
	static const struct timespec pause = {0, PAUSE_MS * 1000000};
	uint64_t end = now_ns() + WAIT_MS * UINT64_C(1000000);
	int r;

	while ((r = ask(library, ret_fd, ret_sentence)) == -EAGAIN && now_ns() < end)
		nanosleep(&pause, NULL);
	return r;
}

/* glibc returns a library that it has loaded under the same name before: the next library may get
 * the same descriptor's number, and a program may load a library of its own by such a number. No
 * other code writes the path in this form.
 *
 * A debugger opens the paths of loaded libraries in its own process. There, /proc/self would name
 * one of its own descriptors, perhaps a pipe on which it waits for ever; our thread's number does
 * not exist there. */
static void name_descriptor(enum wire_library library, int fd, char *path, size_t size)
{
	const char *apart = library == WIRE_LIBRARY_NVML ? "/" : "";

	say_format(path, size, "/proc//self//task/%d/fd/%s%d", (int)syscall(SYS_gettid), apart, fd);
	/* Not if /proc belongs to another container. */
	if (!is_there(path))
		say_format(path, size, "/proc//self//fd/%s%d", apart, fd);
}

static int from_daemon(enum wire_library library, struct driver_file *file)
{
	wire_text sentence = {"it does not answer"};
	int fd = -1, r = ask_in_time(library, &fd, &sentence);

	if (r < 0 && socket_say_lack())
		return -1;
	if (r < 0) {
		say("no driver: meted (%s) did not hand out %s: %s", PLACE_GUEST_SOCKET,
		    names[library], sentence.text);
		return -1;
	}
	file->fd = fd + 1;
	name_descriptor(library, fd, file->path, sizeof(file->path));
	return 0;
}

/* ---- by path --------------------------------------------------------------------------------- */

static int from_environment(const char *name, struct driver_file *file)
{
	/* Not for a program that runs with other rights than its caller's: it would load a library
	 * that the caller names. */
	const char *given = secure_getenv("METE_DRIVER");
	size_t folder;

	if (!given || !*given) {
		say("no driver: %s does not exist and METE_DRIVER is not set (mete run sets it)",
		    PLACE_DRIVER);
		return -1;
	}
	if (given[0] != '/') {
		say("METE_DRIVER is '%s': accepted: the absolute path of a folder or of "
		    "libcuda.so.1",
		    given);
		return -1;
	}
	if (strlen(given) + strlen(name) + 2 > sizeof(file->path)) {
		say("METE_DRIVER is longer than a path can be");
		return -1;
	}
	if (is_folder(given)) {
		say_format(file->path, sizeof(file->path), "%s/%s", given, name);
		return 0;
	}
	folder = (size_t)(strrchr(given, '/') - given) + 1;
	if (strcmp(name, "libcuda.so.1") == 0) {
		say_format(file->path, sizeof(file->path), "%s", given);
	} else {
		memcpy(file->path, given, folder);
		say_format(file->path + folder, sizeof(file->path) - folder, "%s", name);
	}
	return 0;
}

int driver_file_find(enum wire_library library, struct driver_file *ret_file)
{
	ret_file->fd = 0;
	say_format(ret_file->path, sizeof(ret_file->path), "%s/%s", PLACE_DRIVER, names[library]);
	if (is_there(MOUNTED))
		return 0;
	if (is_there(PLACE_GUEST_SOCKET))
		return from_daemon(library, ret_file);
	if (!is_folder(PLACE_DRIVER))
		return from_environment(names[library], ret_file);
	say("no driver: neither %s nor %s exists", MOUNTED, PLACE_GUEST_SOCKET);
	return -1;
}

void driver_file_done(struct driver_file *file)
{
	if (file->fd)
		close(file->fd - 1);
	file->fd = 0;
}
