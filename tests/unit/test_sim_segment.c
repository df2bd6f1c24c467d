/* SPDX-License-Identifier: Apache-2.0 */
/* The shared segment between processes that join and die, with which settings. */
#include "sim/machine/segment.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "sim/machine/segment_mutex.h"
#include "tests/unit/sim_segment_fixture.h"

static int joins_with_eight(void)
{
	int r;

	setenv("METE_SIM_MEMORY", "8GiB", 1);
	r = segment_join();
	return r < 0 ? r : device_take(0, 7 * GIB);
}

TEST(settings_do_not_stick_once_nobody_uses_the_node)
{
	struct child child;

	given();
	child = start(joins_with_eight);
	expect_eq(answer_of(&child), 0);
	end(&child);
	expect_eq(segment_join(), 0);
	expect_eq(device_shape(0)->memory_bytes, 4 * GIB);
	clean();
}

TEST(a_process_without_settings_joins_the_node_that_is_there)
{
	struct child child;

	given();
	child = start(joins_with_eight);
	expect_eq(answer_of(&child), 0);
	expect_eq(segment_join(), 0);
	expect_eq(device_shape(0)->memory_bytes, 8 * GIB);
	expect_eq(device_take(0, 2 * GIB), DEVICE_FULL);
	end(&child);
	clean();
}

static int answers_existing(void)
{
	setenv("METE_SIM_MEMORY", "16GiB", 1);
	return segment_join();
}

TEST(a_process_with_other_settings_is_refused)
{
	struct child other, child;

	given();
	other = start(joins_with_eight);
	expect_eq(answer_of(&other), 0);
	child = start(answers_existing);
	expect_eq(answer_of(&child), -EEXIST);
	end(&child);
	end(&other);
	clean();
}

/* How many of its descriptors are the segment's. */
static int has_segment_open(void)
{
	char path[64], target[128];
	int count = 0;

	for (int fd = 0; fd < 64; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof(target) - 1);
		target[n > 0 ? n : 0] = 0;
		count += strstr(target, "/segment") != NULL;
	}
	return count;
}

TEST(a_forked_child_does_not_hold_its_parents_lock)
{
	struct child child;

	given();
	expect_eq(segment_join(), 0);
	expect_eq(has_segment_open(), 1);
	child = start(has_segment_open);
	expect_eq(answer_of(&child), 0);
	end(&child);
	clean();
}

/* As in a container: pid 1 of a namespace of its own, which its parent knows by another pid. */
static int takes_three_as_pid_one(void)
{
	if (getpid() != 1)
		return -1;
	return takes_three();
}

TEST(a_process_of_another_pid_namespace_is_known_by_its_pid_here_and_reaped)
{
	const struct segment_process *other = NULL;
	struct child child;

	given();
	expect_eq(segment_join(), 0);
	child = start_with(takes_three_as_pid_one, CLONE_NEWPID);
	if (child.pid < 0) {
		clean();
		test_skip("no pid namespace can be made; run it as root, in a container with "
			  "CAP_SYS_ADMIN");
	}
	expect_eq(answer_of(&child), 0);
	expect_eq(segment_reap(), 0);
	for (uint32_t i = 0; i < SEGMENT_PROCESSES_MAX; i++)
		if (segment_get()->processes[i].pid == 1)
			other = &segment_get()->processes[i];
	expect(other != NULL);
	expect_eq(segment_pid(other), child.pid);
	expect_eq(device_take(0, 2 * GIB), DEVICE_FULL);
	end(&child);
	expect_eq(device_take(0, 4 * GIB), 0);
	clean();
}

static uint32_t parents_slot;

static int is_somebody_else(void)
{
	struct segment_process *self = segment_self();

	if (!self || segment_number(self) == parents_slot || self->pid != getpid())
		return 1;
	if (device_used_by(0, parents_slot) != GIB)
		return 2;
	return device_take(0, GIB);
}

TEST(a_forked_child_is_a_process_of_its_own)
{
	uint64_t free_bytes, total_bytes;
	struct child child;

	given();
	expect_eq(segment_join(), 0);
	parents_slot = segment_number(segment_self());
	expect_eq(device_take(0, GIB), 0);
	child = start(is_somebody_else);
	expect_eq(answer_of(&child), 0);
	device_memory(0, &free_bytes, &total_bytes);
	expect_eq(free_bytes, 2 * GIB);
	end(&child);
	/* Its end did not take its parent's slot along. */
	device_memory(0, &free_bytes, &total_bytes);
	expect_eq(free_bytes, 3 * GIB);
	clean();
}

static pid_t *orphan; /* shared */

static int leaves_its_child(void)
{
	int r = device_take(0, 3 * GIB);

	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	*orphan = pid;
	return r;
}

TEST(a_child_that_never_joined_does_not_keep_its_parent_alive)
{
	struct child child;

	given();
	orphan = mmap(NULL, sizeof(*orphan), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	expect(orphan != MAP_FAILED);
	expect_eq(segment_join(), 0);
	child = start(leaves_its_child);
	expect_eq(answer_of(&child), 0);
	kill(child.pid, SIGKILL);
	expect_eq(waitpid(child.pid, NULL, 0), child.pid);
	expect_eq(device_take(0, 4 * GIB), 0);
	kill(*orphan, SIGKILL);
	munmap(orphan, sizeof(*orphan));
	close(child.done);
	clean();
}

static int dies_inside(void)
{
	struct segment_device *book;
	struct segment_usage *usage;

	if (segment_join() < 0)
		return 1;
	book = &segment_get()->devices[0];
	usage = &segment_self()->usage[0];
	segment_lock_node();
	segment_lock(book);
	usage->used_bytes += GIB; /* and not the sum */
	kill(getpid(), SIGKILL);
	return 2;
}

TEST(a_process_that_dies_inside_a_critical_section_leaves_a_book_that_is_right)
{
	uint64_t free_bytes, total_bytes;

	given();
	expect_eq(segment_join(), 0);
	expect_eq(device_take(0, GIB), 0);
	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();

		if (pid == 0)
			_exit(dies_inside());
		expect_eq(waitpid(pid, NULL, 0), pid);
	}
	device_memory(0, &free_bytes, &total_bytes);
	expect_eq(free_bytes, 3 * GIB);
	clean();
}

static int stops_inside(void)
{
	if (segment_join() < 0)
		return 1;
	segment_lock(&segment_get()->devices[0]);
	raise(SIGSTOP);
	segment_unlock(&segment_get()->devices[0]);
	for (;;)
		pause();
}

static volatile sig_atomic_t handled;

static void handle(int number)
{
	(void)number;
	handled++;
}

TEST(no_signal_handler_runs_inside_a_critical_section)
{
	struct sigaction action = {.sa_handler = handle}, before;
	struct segment_device *device;

	given();
	expect_eq(segment_join(), 0);
	device = &segment_get()->devices[0];
	sigaction(SIGUSR1, &action, &before);
	segment_lock_node();
	segment_lock(device);
	raise(SIGUSR1);
	segment_unlock(device);
	expect_eq(handled, 0);
	segment_unlock_node();
	expect_eq(handled, 1);
	sigaction(SIGUSR1, &before, NULL);
	clean();
}

TEST(a_process_that_is_stopped_inside_a_critical_section_keeps_nobody_out)
{
	siginfo_t info;
	pid_t pid;

	if (SEGMENT_MUTEX_TSAN)
		test_skip("under TSan nobody is helped out of a mutex; another build shows it");
	given();
	expect_eq(segment_join(), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(stops_inside());
	}
	expect_eq(waitid(P_PID, (id_t)pid, &info, WSTOPPED), 0);
	expect_eq(info.si_code, CLD_STOPPED);
	expect_eq(device_take(0, GIB), 0);
	/* It stands still again. */
	expect_eq(waitid(P_PID, (id_t)pid, &info, WSTOPPED), 0);
	expect_eq(info.si_code, CLD_STOPPED);
	kill(pid, SIGKILL);
	expect_eq(waitpid(pid, NULL, 0), pid);
	clean();
}

TEST(without_a_slot_left_a_new_process_is_refused_until_one_goes)
{
	static pid_t pids[SEGMENT_PROCESSES_MAX];
	struct child late;
	int pipes[2];
	char byte;

	given();
	expect_eq(segment_join(), 0);
	expect_eq(pipe(pipes), 0);
	for (size_t i = 1; i < SEGMENT_PROCESSES_MAX; i++) {
		pids[i] = fork();
		if (pids[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			byte = (char)segment_join();
			if (write(pipes[1], &byte, 1) != 1)
				_exit(1);
			for (;;)
				pause();
		}
		expect(pids[i] > 0);
		expect_eq(read(pipes[0], &byte, 1), 1);
		expect_eq(byte, 0);
	}
	late = start(segment_join);
	expect_eq(answer_of(&late), -EUSERS);
	end(&late);
	kill(pids[7], SIGKILL);
	expect_eq(waitpid(pids[7], NULL, 0), pids[7]);
	late = start(segment_join);
	expect_eq(answer_of(&late), 0);
	end(&late);
	for (size_t i = 1; i < SEGMENT_PROCESSES_MAX; i++) {
		if (i == 7)
			continue;
		kill(pids[i], SIGKILL);
		expect_eq(waitpid(pids[i], NULL, 0), pids[i]);
	}
	close(pipes[0]);
	close(pipes[1]);
	clean();
}

TEST(the_segment_is_as_open_as_its_folder)
{
	struct stat status;
	char path[128];

	given();
	expect_eq(chmod(getenv("METE_SIM_DIR"), 0777), 0);
	expect_eq(segment_join(), 0);
	snprintf(path, sizeof(path), "%s/segment", getenv("METE_SIM_DIR"));
	expect_eq(stat(path, &status), 0);
	expect_eq(status.st_mode & 0777, 0666);
	clean();
}

TEST(garbage_in_the_place_of_the_segment_is_replaced)
{
	char path[128];
	int fd;

	given();
	snprintf(path, sizeof(path), "%s/segment", getenv("METE_SIM_DIR"));
	fd = open(path, O_CREAT | O_WRONLY, 0600);
	expect(fd >= 0);
	expect_eq(write(fd, "garbage", 7), 7);
	close(fd);
	expect_eq(segment_join(), 0);
	expect_eq(device_take(0, GIB), 0);
	clean();
}
