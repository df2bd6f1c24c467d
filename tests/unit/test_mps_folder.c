/* SPDX-License-Identifier: Apache-2.0 */
/* All that a container leaves in its daemon's folder goes, and nothing else. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/mps/inside.h"
#include "tests/test.h"

static char place[64];

static void begin(void)
{
	snprintf(place, sizeof(place), "/tmp/mete-folder-XXXXXX");
	expect(mkdtemp(place));
	expect_eq(chdir(place), 0);
	expect_eq(mkdir("daemon", 0755), 0);
	expect_eq(mkdir("other", 0755), 0);
	expect_eq(mkdir("other/folder", 0755), 0);
}

static void end(void)
{
	expect_eq(rmdir("other/folder"), 0);
	expect_eq(rmdir("other"), 0);
	expect_eq(chdir("/"), 0);
	expect_eq(rmdir(place), 0);
}

static void make_file(int at, const char *name)
{
	int fd = openat(at, name, O_CREAT | O_WRONLY, 0600);

	expect(fd >= 0);
	close(fd);
}

/* So deep that its path has more bytes than a path may have. */
static void make_deep(const char *top, unsigned depth)
{
	int at = open(top, O_RDONLY | O_DIRECTORY);

	for (unsigned i = 0; i < depth; i++) {
		int below;

		expect_eq(mkdirat(at, "a folder with a long name", 0755), 0);
		make_file(at, "file");
		below = openat(at, "a folder with a long name", O_RDONLY | O_DIRECTORY);
		expect(below >= 0);
		close(at);
		at = below;
	}
	close(at);
}

TEST(links_are_not_followed)
{
	begin();
	expect_eq(symlink("../other", "daemon/link"), 0);
	expect_eq(mkdir("daemon/pipe", 0), 0);
	expect_eq(symlink(place, "daemon/pipe/up"), 0);
	expect_eq(mps_folder_remove("daemon"), 0);
	expect(access("daemon", F_OK) != 0 && access("other/folder", F_OK) == 0);
	end();
}

TEST(folders_may_be_of_any_depth_and_have_any_name)
{
	begin();
	make_deep("daemon", 1000);
	make_file(AT_FDCWD, "daemon/.moved-0");
	expect_eq(mkdir("daemon/.moved-1", 0755), 0);
	make_deep("daemon/.moved-1", 40);
	expect_eq(mkdir("daemon/.moved-2", 0755), 0);
	expect_eq(mps_folder_remove("daemon"), 0);
	expect(access("daemon", F_OK) != 0);
	end();
}

TEST(a_folder_that_is_a_link_stays)
{
	begin();
	expect_eq(rmdir("daemon"), 0);
	expect_eq(symlink("other", "daemon"), 0);
	expect(mps_folder_remove("daemon") < 0);
	expect_eq(unlink("daemon"), 0);
	expect_eq(mps_folder_remove("daemon"), 0);
	end();
}

TEST(links_and_devices_go_before_a_daemon_starts)
{
	begin();
	make_file(AT_FDCWD, "daemon/control_lock");
	expect_eq(mkdir("daemon/folder", 0755), 0);
	expect_eq(symlink("../../other", "daemon/folder/link"), 0);
	expect_eq(mkfifo("daemon/log", 0600), 0);
	expect_eq(symlink("../other/folder", "daemon/link"), 0);
	expect_eq(symlink("nowhere", "daemon/" MPS_PID_FILE), 0);
	expect_eq(mps_folder_unlink_links("daemon"), 0);
	expect(access("daemon/control_lock", F_OK) == 0 && access("daemon/log", F_OK) == 0);
	expect(faccessat(AT_FDCWD, "daemon/link", F_OK, AT_SYMLINK_NOFOLLOW) != 0);
	expect(faccessat(AT_FDCWD, "daemon/" MPS_PID_FILE, F_OK, AT_SYMLINK_NOFOLLOW) != 0);
	expect_eq(mkfifo("daemon/" MPS_PID_FILE, 0600), 0);
	expect_eq(mps_folder_unlink_links("daemon"), 0);
	expect(access("daemon/" MPS_PID_FILE, F_OK) != 0 && access("daemon/log", F_OK) == 0);
	make_file(AT_FDCWD, "daemon/" MPS_PID_FILE);
	expect_eq(mps_folder_unlink_links("daemon"), 0);
	expect_eq(access("daemon/" MPS_PID_FILE, F_OK), 0);
	expect(access("other/folder", F_OK) == 0);
	expect_eq(mps_folder_remove("daemon"), 0);
	expect(mps_folder_unlink_links("daemon") < 0);
	end();
}

TEST(nothing_but_a_file_is_opened)
{
	int fd;

	begin();
	make_file(AT_FDCWD, "daemon/file");
	expect_eq(symlink("file", "daemon/link"), 0);
	expect_eq(mkfifo("daemon/pipe", 0600), 0);
	fd = mps_folder_open_file("daemon/file");
	expect(fd >= 0);
	close(fd);
	expect(mps_folder_open_file("daemon/link") < 0);
	expect(mps_folder_open_file("daemon/pipe") < 0);
	expect(mps_folder_open_file("daemon") < 0 && mps_folder_open_file("/dev/null") < 0);
	expect_eq(mps_folder_remove("daemon"), 0);
	end();
}
