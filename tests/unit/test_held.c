/* SPDX-License-Identifier: Apache-2.0 */
#include "base/held.h"

#include <fcntl.h>
#include <sys/file.h>

#include "tests/test.h"

TEST(a_lock_is_found_by_device_and_inode_and_only_once_it_is_held)
{
	static const char locks[] =
		"1: POSIX  ADVISORY  WRITE 11 fd:01:77 0 EOF\n"
		"2: FLOCK  ADVISORY  WRITE 4711 00:1a:1234 0 EOF\n"
		"2: -> FLOCK  ADVISORY  WRITE 4712 00:1a:99 0 EOF\n"
		"3: FLOCK  ADVISORY  WRITE 4713 103:02:18446744073709551615 0 EOF";

	expect(held_in(locks, 0, 0x1a, 1234));
	expect(!held_in(locks, 0, 0x1a, 123));
	expect(!held_in(locks, 0x1a, 0, 1234));
	expect(!held_in(locks, 0xfd, 1, 77));
	expect(!held_in(locks, 0, 0x1a, 99));
	expect(held_in(locks, 0x103, 2, UINT64_MAX));
	expect(!held_in("", 0, 0, 0));
	expect(!held_in("\n\nnonsense\n", 0, 0, 0));
}

TEST(a_file_is_held_while_somebody_has_its_lock)
{
	char path[] = "/tmp/mete-held-XXXXXX";
	owned(close) int fd = mkstemp(path);

	expect(fd >= 0);
	expect_eq(held_file(path), 0);
	expect_eq(flock(fd, LOCK_EX), 0);
	expect_eq(held_file(path), 1);
	expect_eq(flock(fd, LOCK_UN), 0);
	expect_eq(held_file(path), 0);
	unlink(path);
	expect_eq(held_file(path), 0);
	expect_eq(held_file("/dev/null/nothing"), 0);
}
