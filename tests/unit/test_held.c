/* SPDX-License-Identifier: Apache-2.0 */
#include "base/held.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

#include "tests/test.h"

static bool is_held(const char *locks, unsigned device_major, unsigned device_minor, uint64_t inode)
{
	/* Nothing can be read from a memory of no bytes. */
	owned(fclose) FILE *file = fmemopen((char *)locks, strlen(locks) + !*locks, "r");
	int r;

	expect(file != NULL);
	r = held_in(file, device_major, device_minor, inode);
	expect(r >= 0);
	return r;
}

TEST(a_lock_is_found_by_device_and_inode_and_only_once_it_is_held)
{
	static const char locks[] =
		"1: POSIX  ADVISORY  WRITE 11 fd:01:77 0 EOF\n"
		"2: FLOCK  ADVISORY  WRITE 4711 00:1a:1234 0 EOF\n"
		"2: -> FLOCK  ADVISORY  WRITE 4712 00:1a:99 0 EOF\n"
		"3: FLOCK  ADVISORY  WRITE 4713 103:02:18446744073709551615 0 EOF";

	expect(is_held(locks, 0, 0x1a, 1234));
	expect(!is_held(locks, 0, 0x1a, 123));
	expect(!is_held(locks, 0x1a, 0, 1234));
	expect(!is_held(locks, 0xfd, 1, 77));
	expect(!is_held(locks, 0, 0x1a, 99));
	expect(is_held(locks, 0x103, 2, UINT64_MAX));
	expect(!is_held("", 0, 0, 0));
	expect(!is_held("\n\nnonsense\n", 0, 0, 0));
}

/* Anybody can have as many, and all are in one list: 12 MB of it here. */
TEST(a_lock_is_found_behind_hundreds_of_thousands_of_others)
{
	enum { LOCKS = 250000 };
	owned(free) char *locks = NULL;
	size_t size;
	FILE *file = open_memstream(&locks, &size);

	expect(file != NULL);
	for (int i = 0; i < LOCKS; i++)
		fprintf(file, "%d: POSIX  ADVISORY  WRITE 4711 fd:01:77 %d %d\n", i, 2 * i, 2 * i);
	fprintf(file, "%d: FLOCK  ADVISORY  WRITE 4712 00:1a:1234 0 EOF\n", LOCKS);
	expect_eq(fclose(file), 0);
	expect(is_held(locks, 0, 0x1a, 1234));
	expect(!is_held(locks, 0, 0x1a, 1235));
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
