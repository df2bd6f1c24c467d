/* SPDX-License-Identifier: Apache-2.0 */
/* The store's workers: one that takes for ever is late, holds up no other, and is heard of if it
 * ends. */
#include "node/move/store_worker.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "tests/test.h"

enum { WAITS = 40, MOST = 32 };

static struct {
	struct loop loop;
	struct store_workers workers;
	struct store_task tasks[MOST];
	int finished, slow, late, freed, error;
	int gate[2]; /* work of verb WAITS ends when a byte can be read there */
} w;

/* In the worker, which has no descriptors but its own. The file is the gate. */
static int work(int fd, const struct store_piece *piece)
{
	char byte;

	if (piece->offset == WAITS && read(fd, &byte, 1) != 1)
		return -EIO;
	return piece->offset == WAITS || fd >= 0 ? (int)piece->bytes : -EBADF;
}

static void on_freed(struct store_workers *workers)
{
	(void)workers;
	w.freed++;
}

static void on_finished(struct store_task *task, int error)
{
	expect(!task->worker);
	w.finished++;
	w.error = error;
}

static void on_slow(struct store_task *task)
{
	expect(task->worker);
	w.slow++;
}

static void on_late(struct store_task *task)
{
	expect(task->worker);
	w.late++;
}

static void begin(uint64_t late_ns)
{
	memset(&w, 0, sizeof(w));
	expect_eq(loop_init(&w.loop), 0);
	expect_eq(store_workers_init(&w.workers, &w.loop, late_ns, work, on_freed), 0);
	expect_eq(pipe2(w.gate, O_CLOEXEC), 0);
	for (size_t i = 0; i < MOST; i++)
		w.tasks[i] = (struct store_task){NULL, on_finished, on_slow, on_late};
}

static void end(void)
{
	store_workers_close(&w.workers);
	loop_done(&w.loop);
	close(w.gate[0]);
	close(w.gate[1]);
}

static int give(unsigned task, uint64_t what, int answer)
{
	const struct store_piece piece = {STORE_PUNCH, what, (uint64_t)answer};

	return store_workers_begin(&w.workers, &w.tasks[task], w.gate[0], &piece);
}

static void open_gate(unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		expect_eq(write(w.gate[1], "x", 1), 1);
}

static size_t count(const struct list *list)
{
	size_t n = 0;

	list_for_each(link, (struct list *)list) n++;
	return n;
}

TEST(the_works_result_is_heard)
{
	begin(UINT64_MAX / 2);
	expect_eq(give(0, 0, 7), 0);
	expect(w.tasks[0].worker);
	loop_run(&w.loop);
	expect_eq(w.finished, 1);
	expect_eq(w.error, 7);
	/* The same worker does the next piece. */
	expect_eq(give(1, 0, -5), 0);
	loop_run(&w.loop);
	expect_eq(w.error, -5);
	expect_eq(count(&w.workers.idle), 1);
	end();
}

TEST(no_more_than_so_many_are_at_work_and_a_few_are_kept)
{
	begin(UINT64_MAX / 2);
	for (unsigned i = 0; i < STORE_AT_WORK; i++)
		expect_eq(give(i, WAITS, 0), 0);
	expect_eq(give(STORE_AT_WORK, WAITS, 0), -EAGAIN);
	open_gate(STORE_AT_WORK);
	loop_run(&w.loop);
	expect_eq(w.finished, STORE_AT_WORK);
	expect(w.freed >= STORE_AT_WORK);
	expect_eq(w.workers.at_work, 0);
	expect_eq(count(&w.workers.idle), STORE_IDLE);
	expect_eq(count(&w.workers.over), 0);
	end();
}

TEST(a_slow_worker_holds_up_nobody_and_is_not_given_up)
{
	begin(UINT64_MAX / 2);
	for (unsigned i = 0; i < STORE_AT_WORK; i++)
		expect_eq(give(i, WAITS, 3), 0);
	expect_eq(give(STORE_AT_WORK, 0, 0), -EAGAIN);
	while (w.slow < STORE_AT_WORK)
		expect(loop_once(&w.loop));
	expect_eq(w.workers.at_work, 0);
	expect_eq(give(STORE_AT_WORK, 0, 0), 0);
	while (!w.finished)
		expect(loop_once(&w.loop));
	open_gate(STORE_AT_WORK);
	loop_run(&w.loop);
	expect_eq(w.finished, STORE_AT_WORK + 1);
	expect_eq(w.late, 0);
	expect_eq(w.workers.at_work, 0);
	end();
}

TEST(a_late_worker_holds_up_nobody_and_is_heard_of_when_it_ends)
{
	begin(20000000);
	for (unsigned i = 0; i < STORE_AT_WORK; i++)
		expect_eq(give(i, WAITS, 3), 0);
	while (w.late < STORE_AT_WORK)
		expect(loop_once(&w.loop));
	expect_eq(w.workers.at_work, 0);
	expect_eq(give(STORE_AT_WORK, 0, 0), 0);
	while (!w.finished)
		expect(loop_once(&w.loop));
	open_gate(STORE_AT_WORK);
	loop_run(&w.loop);
	expect_eq(w.finished, STORE_AT_WORK + 1);
	expect_eq(w.error, 3);
	end();
}

TEST(a_worker_that_is_killed_is_replaced)
{
	pid_t children[2] = {0}, child;
	char path[64];
	FILE *file;

	begin(UINT64_MAX / 2);
	expect_eq(give(0, WAITS, 0), 0);
	expect_eq(give(1, 0, 0), 0);
	while (!w.finished)
		expect(loop_once(&w.loop));
	/* One is idle, and one at work: both are killed. */
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	file = fopen(path, "r");
	if (!file)
		test_skip("the kernel shows no children of a process; run it on one with "
			  "CONFIG_PROC_CHILDREN");
	/* After those of former tests. */
	while (fscanf(file, "%d", &child) == 1) {
		children[0] = children[1];
		children[1] = child;
	}
	fclose(file);
	kill(children[0], SIGKILL);
	kill(children[1], SIGKILL);
	while (w.finished < 2)
		expect(loop_once(&w.loop));
	expect_eq(w.error, -ECHILD);
	expect_eq(give(2, 0, 9), 0);
	loop_run(&w.loop);
	expect_eq(w.finished, 3);
	end();
}

TEST(work_that_is_not_wanted_any_more_is_not_heard_of)
{
	begin(20000000);
	expect_eq(give(0, WAITS, 0), 0);
	store_workers_forget(&w.tasks[0]);
	open_gate(1);
	loop_run(&w.loop);
	expect_eq(w.finished + w.slow + w.late, 0);
	expect_eq(w.workers.at_work, 0);
	end();
}

TEST(its_end_waits_for_nobody)
{
	begin(UINT64_MAX / 2);
	for (unsigned i = 0; i < 3; i++)
		expect_eq(give(i, WAITS, 0), 0);
	store_workers_leave(&w.workers, dup(w.gate[1]));
	end();
	expect_eq(w.finished, 0);
}
