/* SPDX-License-Identifier: Apache-2.0 */
/* A process of our own looks for us: it may have to wait, and may be killed. */
#include "base/process_look.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/process.h"
#include "tests/test.h"

static struct looks *looks;
static char folder[32], never[LOOK_PATH];
static char text[LOOK_MOST];

/* Who opens the file `never` for reading waits for somebody who writes to it. */
static void begin(void)
{
	strcpy(folder, "/tmp/mete-look-XXXXXX");
	expect(mkdtemp(folder) != NULL);
	snprintf(never, sizeof(never), "%s/never", folder);
	expect_eq(mkfifo(never, 0600), 0);
	looks = looks_new();
	expect(looks != NULL);
}

static void end(void)
{
	looks_free(looks);
	expect_eq(waitpid(-1, NULL, 0), -1);
	expect_eq(errno, ECHILD);
	unlink(never);
	expect_eq(rmdir(folder), 0);
}

/* The number of the process that looks, which waits for nobody. */
static pid_t looker(pid_t of)
{
	int r;

	do
		r = look_read(looks, of, "/proc/self/stat", text);
	while (r == -EBUSY);
	expect_eq(r, 0);
	return (pid_t)strtol(text, NULL, 10);
}

TEST(another_process_looks_and_keeps_none_of_our_descriptors)
{
	int ends[2];
	pid_t pid;

	begin();
	expect_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	pid = looker(1);
	expect(pid > 0 && pid != getpid());
	close(ends[1]);
	expect_eq(read(ends[0], text, 1), 0); /* nobody else has the other end */
	close(ends[0]);
	expect_eq(looker(2), pid); /* one is enough */
	end();
}

TEST(a_descriptor_is_that_of_the_file)
{
	int fd;

	begin();
	fd = look_open(looks, 1, "/proc/self/comm");
	expect(fd >= 0);
	expect(read(fd, text, sizeof(text)) > 0);
	expect(strncmp(text, "mete-look\n", 10) == 0);
	close(fd);
	expect_eq(look_open(looks, 1, "/proc/none"), -ENOENT);
	expect_eq(look_read(looks, 1, "/proc/none", text), -ENOENT);
	end();
}

TEST(a_process_is_not_looked_at_while_a_look_at_it_waits)
{
	pid_t first;

	begin();
	first = looker(1);
	expect_eq(look_read(looks, 2, never, text), -EBUSY);
	expect_eq(look_read(looks, 2, "/proc/self/stat", text), -EBUSY);
	expect(looker(3) != first);
	end();
}

/* Its number may be 0, which is no process's. */
TEST(a_late_answer_to_a_look_is_not_taken_for_the_next_ones)
{
	int fd;

	for (pid_t of = 0; of < 2; of++) {
		begin();
		expect_eq(look_read(looks, of, never, text), -EBUSY);
		fd = open(never, O_WRONLY | O_CLOEXEC);
		expect_eq(write(fd, "late", 4), 4);
		close(fd);
		expect(looker(2) > 0);
		end();
	}
}

TEST(a_process_is_not_taken_for_gone_while_nothing_is_known_of_it)
{
	begin();
	expect(process_is_gone(looks, getpid(), 1)); /* it began later */
	expect_eq(look_read(looks, getpid(), never, text), -EBUSY);
	expect(!process_is_gone(looks, getpid(), 1));
	end();
}

TEST(there_is_somebody_who_looks_again_when_all_have_waited)
{
	begin();
	for (pid_t of = 1; of <= 40; of++)
		expect_eq(look_read(looks, of, never, text), -EBUSY);
	expect(looker(41) > 0);
	end();
}

TEST(one_that_was_killed_has_a_successor_and_is_waited_for)
{
	pid_t first, second;
	siginfo_t left;

	begin();
	first = looker(1);
	expect_eq(kill(first, SIGKILL), 0);
	expect_eq(waitid(P_PID, (id_t)first, &left, WEXITED | WNOWAIT), 0);
	second = looker(1);
	expect(second != first);
	expect_eq(waitpid(first, NULL, WNOHANG), -1);
	expect_eq(errno, ECHILD);
	end();
}
