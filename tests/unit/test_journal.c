/* SPDX-License-Identifier: Apache-2.0 */
#include "base/journal.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/record.h"
#include "tests/test.h"

static char folder[64], path[96];
static char heard[4 * JOURNAL_RECORD_MAX];
static struct journal j;
static struct fault why;

static void on_line(void *context, const char *line)
{
	expect(context == &j);
	strcat(heard, line);
	strcat(heard, ";");
}

static void given_a_folder(void)
{
	strcpy(folder, "/tmp/mete-journal-XXXXXX");
	expect(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/journal", folder);
}

static void open_again(void)
{
	journal_close(&j);
	heard[0] = 0;
	expect_eq(journal_open(&j, path, on_line, &j, &why), 0);
}

static void gone(void)
{
	journal_close(&j);
	unlink(path);
	expect_eq(rmdir(folder), 0); /* nothing else was left there */
}

static void write_file(const char *text, size_t size)
{
	expect_eq(file_replace(path, text, size, 0600), 0);
}

TEST(appended_records_are_read_again_in_order)
{
	given_a_folder();
	open_again();
	expect_str(heard, "");
	expect_eq(journal_append(&j, "one a=1"), 0);
	expect_eq(journal_append(&j, "two"), 0);
	expect_eq(journal_append(&j, ""), 0);
	open_again();
	expect_str(heard, "one a=1;two;;");
	gone();
}

TEST(it_can_be_rewritten_and_goes_on)
{
	given_a_folder();
	open_again();
	expect_eq(journal_append(&j, "old"), 0);
	expect_eq(journal_rewrite(&j, "new\nnewer\n"), 0);
	expect_eq(journal_append(&j, "last"), 0);
	open_again();
	expect_str(heard, "new;newer;last;");
	expect_eq(journal_rewrite(&j, ""), 0);
	open_again();
	expect_str(heard, "");
	gone();
}

/* Cut anywhere, it is read up to the last whole line, and what is appended then is read, too. */
TEST(a_torn_tail_is_cut_off_wherever_it_was_torn)
{
	owned(free) char *whole = NULL;
	size_t size;

	given_a_folder();
	open_again();
	expect_eq(journal_append(&j, "first"), 0);
	expect_eq(journal_append(&j, "second"), 0);
	expect_eq(file_slurp(path, 4096, &whole, &size), 0);
	for (size_t cut = 0; cut < size; cut++) {
		write_file(whole, cut);
		open_again();
		expect_str(heard, cut < 15 ? "" : "first;");
		expect_eq(journal_append(&j, "third"), 0);
		open_again();
		expect_str(heard, cut < 15 ? "third;" : "first;third;");
	}
	gone();
}

TEST(a_changed_byte_is_found)
{
	owned(free) char *whole = NULL;
	size_t size;

	given_a_folder();
	open_again();
	expect_eq(journal_append(&j, "first"), 0);
	expect_eq(journal_append(&j, "second"), 0);
	expect_eq(file_slurp(path, 4096, &whole, &size), 0);
	for (size_t at = 15; at < size; at++) {
		for (int bit = 0; bit < 8; bit++) {
			whole[at] ^= (char)(1 << bit);
			write_file(whole, size);
			open_again();
			expect_str(heard, "first;");
			whole[at] ^= (char)(1 << bit);
		}
	}
	gone();
}

TEST(a_record_that_could_not_be_read_is_not_written)
{
	static char longer[JOURNAL_RECORD_MAX + 1];

	given_a_folder();
	open_again();
	expect_eq(journal_append(&j, "two\nlines"), -EINVAL);
	memset(longer, 'x', JOURNAL_RECORD_MAX);
	expect_eq(journal_append(&j, longer), -EINVAL);
	longer[JOURNAL_RECORD_MAX - 9] = 0;
	expect_eq(journal_append(&j, longer), 0);
	open_again();
	expect_eq(strlen(heard), strlen(longer) + 1);
	gone();
}

TEST(a_full_disk_leaves_no_half_record)
{
	struct stat before, after;

	given_a_folder();
	open_again();
	expect_eq(journal_append(&j, "first"), 0);
	/* A descriptor that cannot be written to any more. */
	close(j.fd);
	j.fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	expect_eq(stat(path, &before), 0);
	expect_eq(journal_append(&j, "second"), -ENOSPC);
	expect_eq(stat(path, &after), 0);
	expect_eq(before.st_size, after.st_size);
	expect_eq(journal_rewrite(&j, "all\n"), 0); /* there is room again */
	expect_eq(journal_append(&j, "third"), 0);
	open_again();
	expect_str(heard, "all;third;");
	gone();
}

TEST(a_folder_that_is_not_there_is_a_sentence)
{
	expect_eq(journal_open(&j, "/nonexistent/mete/journal", on_line, &j, &why), -ENOENT);
	expect_str(why.text, "/nonexistent/mete/journal: No such file or directory");
}

TEST(a_value_comes_back_whatever_signs_are_in_it)
{
	char value[256], back[256], small[255];
	struct record line = {0};

	for (int i = 0; i < 255; i++)
		value[i] = (char)(i + 1);
	value[255] = 0;
	record_text(&line, "tenant");
	record_number(&line, "id", UINT64_MAX);
	record_value(&line, "name", value);
	record_value(&line, "empty", "");
	expect(!line.failed);
	expect(strchr(line.text, '\n') == NULL);
	expect(record_is(line.text, "tenant") && !record_is(line.text, "ten"));
	expect(record_get_number(line.text, "id") == UINT64_MAX);
	expect(record_get(line.text, "name", back, sizeof(back)));
	expect_str(back, value);
	expect(!record_get(line.text, "name", small, sizeof(small)));
	expect(record_get(line.text, "empty", back, sizeof(back)));
	expect_str(back, "");
	free(line.text);
}

TEST(a_field_is_found_by_all_of_its_name_and_only_where_it_is_whole)
{
	char back[16];

	expect_eq(record_get_number("held most=1 st=2", "st"), 2);
	expect_eq(record_get_number("held name=%20id=3", "id"), 0);
	expect_eq(record_get_number("held", "held"), 0);
	expect(!record_get("held a=%2", "a", back, sizeof(back)));
	expect(!record_get("held a=%zz", "a", back, sizeof(back)));
}
