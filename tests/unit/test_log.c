/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/test.h"

static char said[70000];

/* Runs `work` with one end of a pipe, or of a socket, as standard error; said: what came. */
static void hear(int is_socket, void (*work)(int reader))
{
	int ends[2], before = dup(STDERR_FILENO);
	ssize_t n;

	expect(before >= 0);
	expect_eq(is_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends), 0);
	expect(dup2(ends[1], STDERR_FILENO) >= 0);
	close(ends[1]);
	work(ends[0]);
	expect(dup2(before, STDERR_FILENO) >= 0);
	close(before);
	n = 0;
	for (ssize_t some; (some = read(ends[0], said + n, sizeof(said) - 1 - (size_t)n)) > 0;)
		n += some;
	said[n] = 0;
	close(ends[0]);
}

static void say_one(int reader)
{
	(void)reader;
	errno = EIO;
	log_info("tenant.joined", "tenant=%d name=%s", 3, log_text("a \"b\"\nforged\x1b[0m").text);
	log_debug("too.much", "detail=%d", 1);
	expect_eq(errno, EIO);
}

TEST(a_log_message_is_time_level_event_and_pairs)
{
	int year, month, day, hour, minute, second, milli, end = 0;

	unsetenv("JOURNAL_STREAM");
	hear(0, say_one);
	expect_eq(sscanf(said, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ %n", &year, &month, &day, &hour,
			 &minute, &second, &milli, &end),
		  7);
	expect_str(said + end, "info tenant.joined tenant=3 name=\"a 'b'?forged?[0m\"\n");
	hear(1, say_one);
	expect_str(said + end, "info tenant.joined tenant=3 name=\"a 'b'?forged?[0m\"\n");
}

TEST(for_the_journal_it_begins_with_its_priority)
{
	setenv("JOURNAL_STREAM", "8:12345", 1);
	hear(0, say_one);
	unsetenv("JOURNAL_STREAM");
	expect_str(said, "<6>tenant.joined tenant=3 name=\"a 'b'?forged?[0m\"\n");
}

static void say_much(int reader)
{
	(void)reader;
	for (int i = 0; i < 5000; i++)
		log_warning("flood", "n=%d", i);
}

static void say_much_and_read(int reader)
{
	say_much(reader);
	expect(read(reader, said, sizeof(said)) > 0);
	log_info("after", "all=%d", 1);
}

/* Nobody reads: this would hang if it blocked. What was lost is counted in the next line. */
TEST(logging_never_blocks_and_says_how_many_messages_were_lost)
{
	unsigned long lost = 0;
	char *at;

	hear(0, say_much_and_read);
	at = strstr(said, "log.lost lines=");
	expect(at != NULL);
	expect_eq(sscanf(at, "log.lost lines=%lu", &lost), 1);
	expect(lost > 100 && lost < 5000);
	expect(strstr(at, "info after all=1\n") != NULL);
	hear(1, say_much_and_read);
	expect(strstr(said, "log.lost lines=") != NULL);
}

static void say_long(int reader)
{
	char text[4 * LOG_MESSAGE_MAX];

	(void)reader;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	log_error("long", "text=%s", text);
	log_error("longer", "text=%s", log_text(text).text);
}

TEST(a_log_message_is_cut_and_stays_one_text_line)
{
	char *end;

	hear(0, say_long);
	end = strchr(said, '\n');
	expect(end != NULL && end - said == LOG_MESSAGE_MAX - 2);
	expect_eq(strlen(strstr(end + 1, "text=")), 5 + 299 + 1);
}

TEST(levels_have_names)
{
	enum log_level level = LOG_INFO;

	expect_eq(log_parse_level("debug", &level), 0);
	expect_eq(level, LOG_DEBUG);
	expect_eq(log_parse_level("loud", &level), -EINVAL);
	log_set_level(LOG_ERROR);
	hear(0, say_one);
	expect_str(said, "");
	log_set_level(LOG_INFO);
}
