/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "tests/test.h"

static char folder[64], path[96], beside[128];

static void given_a_folder(void)
{
	strcpy(folder, "/tmp/mete-file-XXXXXX");
	expect(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/file", folder);
	snprintf(beside, sizeof(beside), "%s.new", path);
}

static void expect_content(const char *wanted)
{
	owned(free) char *text = NULL;
	size_t size;

	expect_eq(file_slurp(path, 1 << 20, &text, &size), 0);
	expect_str(text, wanted);
	expect_eq(size, strlen(wanted));
}

TEST(a_file_is_replaced_whole_and_nothing_is_left_beside_it)
{
	struct stat about;

	given_a_folder();
	expect_eq(file_replace(path, "old", 3, 0640), 0);
	expect_content("old");
	expect_eq(file_replace(path, "", 0, 0600), 0);
	expect_content("");
	expect_eq(stat(path, &about), 0);
	expect_eq(about.st_mode & 0777, 0600);
	expect_eq(stat(beside, &about), -1);
	expect_eq(file_replace_unsynced(path, "new", 3, 0640), 0);
	expect_content("new");
	expect_eq(stat(beside, &about), -1);
	unlink(path);
	rmdir(folder);
}

TEST(a_failure_leaves_the_old_content)
{
	char elsewhere[128];

	given_a_folder();
	expect_eq(file_replace(path, "old", 3, 0600), 0);
	expect_eq(mkdir(beside, 0700), 0); /* in the way */
	expect(file_replace(path, "new", 3, 0600) < 0);
	expect_content("old");
	rmdir(beside);
	snprintf(elsewhere, sizeof(elsewhere), "%s/no/file", folder);
	expect_eq(file_replace(elsewhere, "x", 1, 0600), -ENOENT);
	unlink(path);
	rmdir(folder);
}

TEST(a_file_is_read_up_to_the_bound)
{
	owned(free) char *text = NULL, *big = malloc(100000);
	size_t size;

	given_a_folder();
	memset(big, 'x', 100000);
	expect_eq(file_replace(path, big, 100000, 0600), 0);
	expect_eq(file_slurp(path, 99999, &text, &size), -EFBIG);
	expect(text == NULL);
	expect_eq(file_slurp(path, 100000, &text, &size), 0);
	expect_eq(size, 100000);
	expect(text[99999] == 'x' && text[100000] == 0);
	unlink(path);
	rmdir(folder);
	expect_eq(file_slurp(path, 10, &big, &size), -ENOENT);
}

TEST(bytes_are_written_in_the_largest_unit)
{
	expect_str(text_bytes(0).text, "0B");
	expect_str(text_bytes(1023).text, "1023B");
	expect_str(text_bytes(1024).text, "1KiB");
	expect_str(text_bytes(1536 << 20).text, "1.5GiB");
	expect_str(text_bytes((4ull << 30) - 1).text, "3.9GiB"); /* cut, not rounded */
	expect_str(text_bytes(UINT64_MAX).text, "15.9EiB");
}

TEST(sizes_of_a_sentence_are_whole_below_a_gib_and_rounded_as_is_asked)
{
	const uint64_t mib = 1 << 20, gib = 1 << 30;

	expect_str(text_size(0, TEXT_UP).text, "0MiB");
	expect_str(text_size(1, TEXT_UP).text, "1KiB");
	expect_str(text_size(mib - 1, TEXT_UP).text, "1MiB");
	expect_str(text_size(mib - 1, TEXT_DOWN).text, "1023KiB");
	expect_str(text_size(384 * mib + 1, TEXT_UP).text, "385MiB");
	expect_str(text_size(gib - 1, TEXT_UP).text, "1GiB");
	expect_str(text_size(gib - 1, TEXT_DOWN).text, "1023MiB");
	expect_str(text_size(gib, TEXT_UP).text, "1GiB");
	expect_str(text_size(3 * gib / 2, TEXT_UP).text, "1.5GiB");
	expect_str(text_size(gib + 1, TEXT_UP).text, "1.01GiB");
	expect_str(text_size(2 * gib - 1, TEXT_UP).text, "2GiB");
	expect_str(text_size(2 * gib - 1, TEXT_DOWN).text, "1.99GiB");
	expect_str(text_size(UINT64_MAX, TEXT_UP).text, "17179869184GiB");
}
