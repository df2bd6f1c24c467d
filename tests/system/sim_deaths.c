/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that use a device are killed at random instants, again and again; when the others stand
 * still the books must equal what the living hold.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "sim/machine/clock.h"
#include "sim/machine/device.h"
#include "sim/machine/engine.h"
#include "tests/sim_folder.h"
#include "tests/test.h"

enum { WORKERS = 6, DEVICES = 2, KILLS = 300, KILLS_BETWEEN = 25 };

#define MIB (1ULL << 20)

/* The memory that a worker holds, stated by itself; true while it stands still. */
struct worker {
	_Atomic uint32_t standing; /* the pause that it has seen */
	uint64_t plain_bytes[DEVICES], managed_bytes[DEVICES];
	uint32_t contexts[DEVICES];
	pid_t pid;
};

struct shared {
	_Atomic uint32_t pause; /* futex: odd: stand still */
	struct worker workers[WORKERS];
};

static struct shared *shared;

static void act(struct worker *me, unsigned what, int device)
{
	uint64_t bytes = (1 + test_random_below(64)) * MIB, own, end_ns = clock_now_ns();
	struct engine_ticket ticket;
	enum segment_lane lane;

	me->managed_bytes[device] -= device_pushed_out(device);
	switch (what) {
	case 0:
	case 1:
		if (device_take(device, bytes) == 0)
			me->plain_bytes[device] += bytes;
		break;
	case 2:
		if (bytes > me->plain_bytes[device])
			bytes = me->plain_bytes[device];
		device_give(device, bytes);
		me->plain_bytes[device] -= bytes;
		break;
	case 3:
		device_touch_managed(device);
		if (device_take_managed(device, bytes, &own) == 0)
			me->managed_bytes[device] += bytes - own;
		break;
	case 4:
		engine_kernel_begin(device, 0, end_ns, test_random_below(2) * 200000, &ticket);
		expect_eq(engine_kernel_end(&ticket, test_random_below(500000), &end_ns, NULL), 0);
		break;
	case 5:
		lane = test_random_below(2) ? SEGMENT_DEVICE_TO_HOST : SEGMENT_HOST_TO_DEVICE;
		expect_eq(engine_copy(device, lane, test_random_below(4 * MIB), end_ns, &end_ns),
			  0);
		break;
	case 6:
		device_count_context(device, 1);
		me->contexts[device]++;
		break;
	default:
		device_memory(device, &own, &bytes);
	}
}

static noreturn_ void work(struct worker *me)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		unsigned what;
		uint32_t pause_ = atomic_load(&shared->pause);

		if (pause_ & 1) {
			for (int i = 0; i < DEVICES; i++)
				me->managed_bytes[i] -= device_pushed_out(i);
			atomic_store(&me->standing, pause_);
			best_effort(clock_wait_until(UINT64_MAX, &shared->pause, pause_));
			continue;
		}
		what = (unsigned)test_random_below(8);
		act(me, what, (int)test_random_below(DEVICES));
	}
}

static void start(struct worker *me)
{
	uint64_t seed = test_random();
	pid_t pid;

	memset(me, 0, sizeof(*me));
	pid = fork();
	if (pid == 0) {
		test_random_restart(seed); /* each its own history */
		if (segment_join() < 0)
			_exit(1);
		work(me);
	}
	me->pid = pid;
}

static void stand_still(void)
{
	uint32_t pause_;

	clock_wake(&shared->pause);
	pause_ = atomic_load(&shared->pause);
	for (int i = 0; i < WORKERS; i++)
		while (atomic_load(&shared->workers[i].standing) != pause_)
			best_effort(clock_wait_until(clock_now_ns() + 1000000, NULL, 0));
}

static const struct worker *worker_of(pid_t pid)
{
	for (int i = 0; i < WORKERS; i++)
		if (shared->workers[i].pid == pid)
			return &shared->workers[i];
	return NULL;
}

static void expect_books_right(void)
{
	struct segment *segment = segment_get();
	uint64_t free_bytes, total_bytes, held_bytes;

	segment_reap();
	for (int device = 0; device < DEVICES; device++) {
		unsigned alive = 0;

		held_bytes = 0;
		for (uint32_t i = 0; i < SEGMENT_PROCESSES_MAX; i++) {
			const struct segment_process *process = &segment->processes[i];
			const struct segment_usage *usage = &process->usage[device];
			const struct worker *worker = worker_of(process->pid);

			if (atomic_load(&process->state) != SEGMENT_ALIVE ||
			    process == segment_self()) {
				expect_eq(usage->used_bytes, 0);
				continue;
			}
			expect(worker != NULL);
			alive++;
			/* Of what was pushed out it may not have been told yet. */
			expect_eq(usage->used_bytes + usage->pushed_bytes,
				  worker->plain_bytes[device] + worker->managed_bytes[device]);
			expect_eq(usage->managed_bytes + usage->pushed_bytes,
				  worker->managed_bytes[device]);
			expect_eq(usage->contexts, worker->contexts[device]);
			held_bytes += usage->used_bytes;
		}
		expect_eq(alive, WORKERS);
		device_memory(device, &free_bytes, &total_bytes);
		expect_eq(total_bytes - free_bytes, held_bytes);
		expect_eq(segment->devices[device].engines.tickets_high, 0);
	}
}

TEST(after_any_kill_the_books_equal_the_memory_of_the_living)
{
	unsigned kills = test_histories(KILLS);

	sim_folder_make();
	setenv("METE_SIM_DEVICES", "2xSIM", 1);
	setenv("METE_SIM_MEMORY", "1GiB", 1);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	expect(shared != MAP_FAILED);
	expect_eq(segment_join(), 0);
	test_random();
	for (int i = 0; i < WORKERS; i++)
		start(&shared->workers[i]);
	for (unsigned i = 1; i <= kills; i++) {
		struct worker *victim = &shared->workers[test_random_below(WORKERS)];

		best_effort(clock_wait_until(clock_now_ns() + test_random_below(4000000), NULL, 0));
		kill(victim->pid, SIGKILL);
		expect_eq(waitpid(victim->pid, NULL, 0), victim->pid);
		start(victim);
		if (i % KILLS_BETWEEN == 0) {
			stand_still();
			expect_books_right();
			clock_wake(&shared->pause);
		}
	}
	for (int i = 0; i < WORKERS; i++) {
		kill(shared->workers[i].pid, SIGKILL);
		expect_eq(waitpid(shared->workers[i].pid, NULL, 0), shared->workers[i].pid);
	}
	segment_reap();
	for (int i = 0; i < DEVICES; i++)
		expect_eq(segment_get()->devices[i].used_bytes, 0);
	segment_leave();
	sim_folder_remove();
}
