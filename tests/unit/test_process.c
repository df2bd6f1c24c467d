/* SPDX-License-Identifier: Apache-2.0 */
/* When a process counts as ended: not while any of it still holds what it has. */
#include "node/process.h"

#include <mntent.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/process_look.h"
#include "tests/forge_image.h"
#include "tests/test.h"

static struct looks *looks;

static void begin(void)
{
	looks = looks_new();
	assert_non_null(looks);
}

static void *stay(void *said)
{
	(void)said;
	for (;;)
		pause();
	return NULL;
}

/* A process whose first thread ends at once and whose other thread stays: as far as /proc shows it
 * has no memory any more, but its descriptors are open. */
static pid_t start_without_first_thread(void)
{
	pid_t pid = fork();
	pthread_t thread;

	if (pid != 0)
		return pid;
	raise(SIGSTOP);
	if (pthread_create(&thread, NULL, stay, NULL) != 0)
		_exit(1);
	syscall(SYS_exit, 0);
	return 0;
}

static void wait_for_zombie(pid_t pid)
{
	char path[64], line[512], *name;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	do {
		FILE *file = fopen(path, "re");

		assert_non_null(file);
		line[fread(line, 1, sizeof(line) - 1, file)] = '\0';
		fclose(file);
		name = strrchr(line, ')');
		assert_non_null(name);
	} while (name[2] != 'Z');
}

TEST(a_process_that_is_about_to_end_is_neither_over_nor_another_program)
{
	pid_t pid = start_without_first_thread();
	struct process_identity before;
	int status, memory;

	begin();
	assert_true(pid > 0);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	before = process_identify(looks, pid);
	memory = process_open_memory(looks, pid);
	assert_true(memory >= 0);
	kill(pid, SIGCONT);
	wait_for_zombie(pid);
	assert_int_equal(process_is_over(pid), 0);
	assert_false(process_was_replaced(looks, &before, memory));
	kill(pid, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)pid, NULL, WEXITED | WNOWAIT), 0);
	/* It has ended, and nobody has taken notice yet. */
	assert_int_equal(process_is_over(pid), 1);
	assert_false(process_was_replaced(looks, &before, memory));
	close(memory);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(process_is_over(pid), 1);
	looks_free(looks);
}

/* It says something, does `then` when it is told to, and goes on until its standard input ends. */
static pid_t start_and_wait(void (*then)(void), int *ret_input)
{
	int input[2], output[2];
	char said;
	pid_t pid;

	assert_int_equal(pipe(input), 0);
	assert_int_equal(pipe(output), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(input[0], 0);
		dup2(output[1], 1);
		close(input[1]);
		best_effort(write(1, "x", 1));
		if (read(0, &said, 1) == 1)
			then();
		_exit(1);
	}
	close(input[0]);
	close(output[1]);
	assert_int_equal(read(output[0], &said, 1), 1);
	close(output[0]);
	*ret_input = input[1];
	return pid;
}

static void become_cat(void)
{
	execlp("cat", "cat", (char *)NULL);
	_exit(127);
}

TEST(another_program_in_the_same_process_is_told_from_the_former_one)
{
	struct process_identity before;
	int status, memory, input;
	pid_t pid = start_and_wait(become_cat, &input);

	begin();
	before = process_identify(looks, pid);
	memory = process_open_memory(looks, pid);
	assert_true(before.image && memory >= 0);
	assert_false(process_was_replaced(looks, &before, memory));
	assert_int_equal(write(input, "x", 1), 1);
	while (!process_was_replaced(looks, &before, memory))
		assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	close(memory);
	/* The new one's is there. */
	memory = process_open_memory(looks, pid);
	assert_true(memory >= 0);
	assert_false(process_was_replaced(looks, &before, memory));
	close(memory);
	close(input);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	looks_free(looks);
}

static void seem_another(void)
{
	char left;

	if (!forge_image())
		_exit(2);
	while (read(0, &left, 1) == 1)
		;
	_exit(0);
}

TEST(a_process_that_pretends_to_be_another_program_is_not_believed)
{
	struct process_identity before;
	int status, memory, input;
	pid_t pid = start_and_wait(seem_another, &input);

	begin();
	before = process_identify(looks, pid);
	memory = process_open_memory(looks, pid);
	assert_true(before.image && memory >= 0);
	assert_int_equal(write(input, "x", 1), 1);
	while (process_identify(looks, pid).image == before.image)
		if (waitpid(pid, &status, WNOHANG) == pid)
			test_skip("this kernel has no PR_SET_MM_MAP; run it on one with "
				  "CONFIG_CHECKPOINT_RESTORE");
	assert_false(process_was_replaced(looks, &before, memory));
	close(memory);
	close(input);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	looks_free(looks);
}

/* A new group, of the freezer of that version; false: this machine has none that can be written. */
static bool make_group(const char *type, const char *controller, char *ret_group, size_t size)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	const struct mntent *each;
	bool made = false;

	while (mounts && !made && (each = getmntent(mounts)) != NULL) {
		if (strcmp(each->mnt_type, type) != 0 ||
		    (*controller && !hasmntopt(each, controller)))
			continue;
		snprintf(ret_group, size, "%s/mete-test-%d", each->mnt_dir, (int)getpid());
		made = mkdir(ret_group, 0755) == 0;
	}
	if (mounts)
		endmntent(mounts);
	return made;
}

static void write_to(const char *group, const char *file, const char *text)
{
	char path[512];
	FILE *to;

	snprintf(path, sizeof(path), "%s/%s", group, file);
	to = fopen(path, "we");
	assert_non_null(to);
	assert_true(fputs(text, to) >= 0);
	assert_int_equal(fclose(to), 0);
}

static void expect_frozen(const char *group, const char *file, const char *frozen,
			  const char *thawed)
{
	char number[16];
	int status, input;
	pid_t pid = start_and_wait(become_cat, &input);

	snprintf(number, sizeof(number), "%d", (int)pid);
	write_to(group, "cgroup.procs", number);
	assert_false(process_is_stopped(looks, pid));
	write_to(group, file, frozen);
	while (!process_is_stopped(looks, pid))
		assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	write_to(group, file, thawed);
	while (process_is_stopped(looks, pid))
		assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
	close(input);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(rmdir(group), 0);
}

TEST(a_frozen_process_counts_as_stopped)
{
	char group[300];
	bool newer = make_group("cgroup2", "", group, sizeof(group)), older;

	begin();
	if (newer)
		expect_frozen(group, "cgroup.freeze", "1", "0");
	older = make_group("cgroup", "freezer", group, sizeof(group));
	if (older)
		expect_frozen(group, "freezer.state", "FROZEN", "THAWED");
	if (!newer && !older)
		test_skip("no control group can be made here; run it as root, in a container with "
			  "a writable /sys/fs/cgroup");
	looks_free(looks);
}

TEST(a_threads_wait_is_the_second_figure_of_its_schedstat)
{
	expect_eq(process_parse_queued("175935385 320023592 893\n"), 320023592);
	expect_eq(process_parse_queued("0 0 0\n"), 0);
	expect_eq(process_parse_queued("175935385"), 0);
	expect_eq(process_parse_queued(""), 0);
	expect_eq(process_parse_queued("none at all"), 0);
}

TEST(a_stopped_process_waits_for_no_processor)
{
	pid_t pid = fork();
	unsigned threads = 2000;
	uint64_t before;
	int status;

	expect(pid >= 0);
	if (pid == 0) {
		raise(SIGSTOP);
		_exit(0);
	}
	expect_eq(waitpid(pid, &status, WUNTRACED), pid);
	expect(WIFSTOPPED(status));
	before = process_queued_ns(pid, &threads);
	for (unsigned i = 0; i < 1000; i++)
		expect_eq(process_queued_ns(pid, &threads), before);
	kill(pid, SIGKILL);
	expect_eq(waitpid(pid, &status, 0), pid);
	expect_eq(process_queued_ns(pid, &threads), 0);
	expect_eq(threads, 2000 - 1001);
}

static void *wait_for_end(void *end)
{
	pthread_barrier_wait(end);
	return NULL;
}

TEST(of_a_process_with_many_threads_a_few_are_read)
{
	pthread_barrier_t end;
	pthread_t thread[8];
	unsigned few = 3, many = 100;

	pthread_barrier_init(&end, NULL, 9);
	for (unsigned i = 0; i < 8; i++)
		pthread_create(&thread[i], NULL, wait_for_end, &end);
	(void)process_queued_ns(getpid(), &few);
	expect_eq(few, 0);
	(void)process_queued_ns(getpid(), &many);
	expect_eq(many, 100 - 9);
	pthread_barrier_wait(&end);
	for (unsigned i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&end);
}
