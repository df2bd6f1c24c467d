/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attempts of a container on the driver's file that meted hands out:
 *
 *	handout meted|FILE      a line per attempt: its name, and "done" or the error
 *
 * With the file of its own it does the same to that: so that a test can show that attempts succeed
 * where nothing is in the way. Static: it runs in any root.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "wire/wire.h"

static void said(const char *what, int failed)
{
	printf("%s %s\n", what, failed ? strerrorname_np(errno) : "done");
	fflush(stdout);
}

static noreturn_ void give_up(const char *what)
{
	printf("%s failed: %s\n", what, strerror(errno));
	exit(1);
}

static int ask(void)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = "/run/mete/guest.sock"};
	struct wire_message message = {.code = WIRE_driver_ask, .id = 1}, answer;
	uint8_t frame[WIRE_FRAME_MAX];
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec part = {frame, sizeof(frame)};
	struct msghdr header = {.msg_iov = &part,
				.msg_iovlen = 1,
				.msg_control = &control,
				.msg_controllen = sizeof(control)};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), got;
	ssize_t size;

	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0 ||
	    send(fd, frame, wire_encode(&message, frame), 0) < 0)
		give_up("asking");
	size = recvmsg(fd, &header, 0);
	if (size < 0 || wire_decode(frame, (size_t)size, &answer) != 0 ||
	    answer.code != WIRE_driver_file || header.msg_controllen == 0)
		give_up("being answered");
	memcpy(&got, CMSG_DATA(&control.header), sizeof(got));
	return got;
}

static int find(const char *what, char ret_name[32])
{
	int fd = strcmp(what, "meted") == 0 ? ask() : open(what, O_PATH);

	if (fd < 0)
		give_up(what);
	snprintf(ret_name, 32, "/proc/self/fd/%d", fd);
	return fd;
}

static int opens_for_writing(const char *path)
{
	int fd = open(path, O_RDWR);

	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

static void by_name(const char *name)
{
	static const struct timespec times[2] = {{1, 0}, {1, 0}};

	said("write", opens_for_writing(name));
	said("chmod", chmod(name, 0666));
	said("chown", chown(name, 1, 1));
	said("times", utimensat(AT_FDCWD, name, times, 0));
	said("attribute", setxattr(name, "user.mete", "x", 1, 0));
	said("truncate", truncate(name, 1));
}

static int put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY), r;

	if (fd < 0)
		return -1;
	r = write(fd, text, strlen(text)) < 0 ? -1 : 0;
	close(fd);
	return r;
}

/* As root of a user namespace of one's own, which may mount there, and is the host's root to files.
 */
static void by_mounts(const char *what)
{
	struct mount_attr writable = {.attr_clr = MOUNT_ATTR_RDONLY};
	char name[32];
	int fd, tree;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0 || put("/proc/self/uid_map", "0 0 1") != 0)
		give_up("a user namespace");
	if (mkdir("/tmp/at", 0700) != 0 && errno != EEXIST)
		give_up("/tmp/at");
	close(open("/tmp/at/file", O_CREAT | O_WRONLY, 0600));
	fd = find(what, name);
	said("remount", mount_setattr(fd, "", AT_EMPTY_PATH, &writable, sizeof(writable)));
	tree = open_tree(fd, "", OPEN_TREE_CLONE | AT_EMPTY_PATH);
	said("copy", tree < 0);
	said("move", move_mount(fd, "", AT_FDCWD, "/tmp/at/file", MOVE_MOUNT_F_EMPTY_PATH));
	said("bind", mount(name, "/tmp/at/file", NULL, MS_BIND, NULL));
	said("writable", mount(NULL, "/tmp/at/file", NULL, MS_REMOUNT | MS_BIND, NULL));
	said("write-again", opens_for_writing(name));
}

int main(int argc, char **argv)
{
	char name[32];
	int status;
	pid_t child;

	if (argc != 2)
		return 2;
	child = fork();
	if (child == 0) {
		by_mounts(argv[1]);
		exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		give_up("the child");
	find(argv[1], name);
	by_name(name);
	return 0;
}
