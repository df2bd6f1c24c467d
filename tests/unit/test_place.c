/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/stat.h>

#include "base/place.h"
#include "tests/test.h"

static char folder[] = "/tmp/mete-test-XXXXXX";

TEST(a_users_place_is_below_the_runtime_folder)
{
	char path[PLACE_MAX];
	struct fault why;

	setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
	expect_eq(place_user(path, &why), 0);
	expect_str(path, "/run/user/7/mete");
}

TEST(without_a_runtime_folder_it_is_named_after_the_user)
{
	char path[PLACE_MAX], wanted[64];
	struct fault why;

	unsetenv("XDG_RUNTIME_DIR");
	setenv("TMPDIR", "/var/tmp", 1);
	snprintf(wanted, sizeof(wanted), "/var/tmp/mete-%u", (unsigned)getuid());
	expect_eq(place_user(path, &why), 0);
	expect_str(path, wanted);
}

TEST(a_place_too_long_for_a_socket_is_refused_in_a_sentence)
{
	char path[PLACE_MAX] = "untouched", deep[200];
	struct fault why;

	memset(deep, 'd', sizeof(deep) - 1);
	deep[0] = '/';
	deep[sizeof(deep) - 1] = '\0';
	setenv("XDG_RUNTIME_DIR", deep, 1);
	expect_eq(place_user(path, &why), -ENAMETOOLONG);
	expect(strstr(why.text, "too long"));
	expect_str(path, "untouched");
}

TEST(a_folder_that_others_may_enter_is_not_used)
{
	struct fault why;

	expect(mkdtemp(folder) != NULL);
	expect_eq(place_make(folder, PLACE_PRIVATE, &why), 0);
	expect_eq(chmod(folder, 0755), 0);
	expect_eq(place_make(folder, PLACE_PRIVATE, &why), -EPERM);
	expect(strstr(why.text, "0700"));
	expect_eq(place_make(folder, PLACE_PASSAGE, &why), -EPERM);
	expect_eq(rmdir(folder), 0);
}

TEST(a_systems_place_is_opened_as_far_as_it_may_be_and_no_further)
{
	char path[] = "/tmp/mete-test-XXXXXX";
	struct fault why;
	struct stat there;

	umask(077);
	expect(mkdtemp(path) != NULL);
	expect_eq(place_make(path, PLACE_PASSAGE, &why), 0);
	expect_eq(stat(path, &there), 0);
	expect_eq(there.st_mode & 0777, 0711);
	expect_eq(rmdir(path), 0);
	expect_eq(place_make(path, PLACE_PASSAGE, &why), 0);
	expect_eq(stat(path, &there), 0);
	expect_eq(there.st_mode & 0777, 0711);
	expect_eq(rmdir(path), 0);
	expect_eq(place_check(path, getuid(), PLACE_PRIVATE, &why), PLACE_ABSENT);
}

TEST(a_link_a_file_and_a_strangers_folder_are_no_place)
{
	char path[] = "/tmp/mete-test-XXXXXX", other[64];
	struct fault why;

	expect(mkdtemp(path) != NULL);
	snprintf(other, sizeof(other), "%s/link", path);
	expect_eq(symlink(path, other), 0);
	expect_eq(place_check(path, getuid(), PLACE_PRIVATE, &why), 0);
	expect_eq(place_check(other, getuid(), PLACE_PRIVATE, &why), -EPERM);
	expect_eq(place_make(other, PLACE_PRIVATE, &why), -EPERM);
	expect(strstr(why.text, other) && strstr(why.text, "belongs to user"));
	expect_eq(place_check(path, getuid() + 1, PLACE_PRIVATE, &why), -EPERM);
	expect_eq(chmod(path, 0770), 0);
	expect_eq(place_check(path, getuid(), PLACE_READABLE, &why), -EPERM);
	expect_eq(unlink(other), 0);
	expect_eq(rmdir(path), 0);
}
