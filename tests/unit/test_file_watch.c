/* SPDX-License-Identifier: Apache-2.0 */
/* A file is watched although its user has no inotify instance left. */
#include "base/file_watch.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/inotify.h>

#include "tests/test.h"

static unsigned changes;

static void on_changed(struct file_watch *watch)
{
	(void)watch;
	changes++;
}

static void on_closed(struct file_watch *watch)
{
	(void)watch;
}

static void write_to(const char *path, const char *text)
{
	owned(close) int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	expect(fd >= 0);
	expect_eq(write(fd, text, strlen(text)), strlen(text));
}

/* In a namespace of its own: no other program misses them. */
static bool use_up_instances(void)
{
	if (unshare(CLONE_NEWUSER) != 0)
		return false;
	owned(close) int fd = open("/proc/sys/user/max_inotify_instances", O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, "0", 1) == 1 && inotify_init1(IN_CLOEXEC) < 0;
}

TEST(a_file_is_watched_where_no_inotify_instance_is_left)
{
	char folder[] = "/tmp/mete-watch-XXXXXX", path[64];
	struct file_watch watch;
	struct fault why;
	struct loop loop;

	expect(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/file", folder);
	expect_eq(loop_init(&loop), 0);
	if (!use_up_instances())
		printf("this machine has no user namespaces: inotify itself is tried\n");
	expect_eq(file_watch_open(&loop, &watch, path, on_changed, &why), 0);
	write_to(path, "one");
	while (changes < 1)
		expect(loop_once(&loop));
	write_to(path, "other");
	while (changes < 2)
		expect(loop_once(&loop));
	expect(file_watch_close(&watch, on_closed));
	unlink(path);
	rmdir(folder);
	loop_done(&loop);
}
