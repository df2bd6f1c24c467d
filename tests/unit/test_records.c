/* SPDX-License-Identifier: Apache-2.0 */
#include "base/records.h"

#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "tests/folder.h"
#include "tests/test.h"

static char folder[64];
static char seen[256]; /* "name=text " of each record that was read */

static bool is_name(const char *name)
{
	return strlen(name) == 3;
}

static int take_in(void *owner, const char *name, const char *text, size_t size)
{
	expect_eq(owner == seen, true);
	if (size >= 3 && memcmp(text, "bad", 3) == 0)
		return -EINVAL;
	if (size >= 4 && memcmp(text, "busy", 4) == 0)
		return -ENOMEM;
	snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%s=%.*s ", name, (int)size,
		 text);
	return 0;
}

static const struct records_reader reader = {is_name, take_in, "record.lost"};

static void given_a_folder(void)
{
	struct fault why;

	strcpy(folder, "/tmp/mete-records-XXXXXX");
	folder_make(folder);
	expect_eq(records_open(folder, &reader, seen, &why), 0);
	seen[0] = '\0';
}

static void put(const char *name, const char *text)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	expect_eq(file_replace(path, text, strlen(text), 0600), 0);
}

static bool is_there(const char *name)
{
	struct stat about;
	char path[96];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return stat(path, &about) == 0;
}

TEST(a_written_record_is_read_again)
{
	struct fault why;

	given_a_folder();
	expect_eq(records_write(folder, "abc", "first", &why), 0);
	expect_eq(records_write(folder, "abc", "second", &why), 0);
	expect_eq(records_open(folder, &reader, seen, &why), 0);
	expect_str(seen, "abc=second ");
}

TEST(a_record_that_is_none_is_removed)
{
	struct fault why;

	given_a_folder();
	put("abc", "bad");
	put("xyz", "good");
	expect_eq(records_open(folder, &reader, seen, &why), 0);
	expect_str(seen, "xyz=good ");
	expect(!is_there("abc") && is_there("xyz"));
}

TEST(a_record_that_cannot_be_read_now_stays)
{
	struct fault why;

	given_a_folder();
	put("abc", "busy");
	expect_eq(records_open(folder, &reader, seen, &why), 0);
	expect_str(seen, "");
	expect(is_there("abc"));
}

TEST(a_writer_that_was_killed_leaves_nothing_and_files_of_others_stay)
{
	struct fault why;

	given_a_folder();
	put("abc.new", "half of a rec");
	put("somebody-else's", "text");
	put("others.new", "text");
	expect_eq(records_open(folder, &reader, seen, &why), 0);
	expect_str(seen, "");
	expect(!is_there("abc.new") && is_there("somebody-else's") && is_there("others.new"));
}

TEST(a_record_is_removed_once_and_again)
{
	struct fault why;

	given_a_folder();
	put("abc", "text");
	expect_eq(records_remove(folder, "abc", &why), 0);
	expect(!is_there("abc"));
	expect_eq(records_remove(folder, "abc", &why), 0);
}

TEST(a_record_that_cannot_be_written_or_removed_is_named)
{
	struct fault why;

	given_a_folder();
	expect_eq(records_write(folder, "abc", NULL, &why), -ENOMEM);
	expect_eq(records_write(folder, "no/abc", "text", &why), -ENOENT);
	expect(strstr(why.text, "/no/abc: No such file or directory"));
	put("abc", "text");
	expect_eq(records_remove(folder, "abc/def", &why), -ENOTDIR);
	expect(strstr(why.text, "/abc/def: Not a directory"));
}
