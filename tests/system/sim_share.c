/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes share a device's compute engine. Judged by the ledger of busy time, which is in
 * modelled time. Shares that are off by no more than the processes came late are the host's: the
 * run is repeated slower, and at last reported as invalid, not as wrong.
 */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "sim/machine/clock.h"
#include "sim/machine/device.h"
#include "sim/machine/engine.h"
#include "tests/sim_folder.h"
#include "tests/test.h"

#define MS 1000000ULL

enum { WINDOW_MS = 2000, SETTLE_MS = 200, PERIOD_MS = 167 };

static void given(const char *dilate)
{
	sim_folder_make();
	setenv("METE_SIM_DILATE", dilate, 1);
}

static void clean(void)
{
	segment_leave();
	sim_folder_remove();
}

/* A process that always has a kernel of kernel_ns for the device. */
static pid_t start(uint64_t kernel_ns, uint64_t expected_ns)
{
	pid_t pid = fork();
	uint64_t end_ns;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (segment_join() < 0)
		_exit(1);
	device_count_context(0, 1);
	end_ns = clock_now_ns();
	for (;;) {
		struct engine_ticket ticket;

		engine_kernel_begin(0, 0, end_ns, expected_ns, &ticket);
		if (engine_kernel_end(&ticket, kernel_ns, &end_ns, NULL) != 0)
			_exit(2);
	}
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	expect_eq(waitpid(pid, NULL, 0), pid);
}

static const struct segment_process *slot_of(pid_t pid)
{
	for (uint32_t i = 0; i < SEGMENT_PROCESSES_MAX; i++) {
		const struct segment_process *process = &segment_get()->processes[i];

		if (atomic_load(&process->state) == SEGMENT_ALIVE && process->pid == pid)
			return process;
	}
	return NULL;
}

static uint64_t busy_of(pid_t pid)
{
	const struct segment_process *process = slot_of(pid);

	return process ? engine_busy_ns(0, segment_number(process), SEGMENT_COMPUTE) : 0;
}

static void wait_ms(uint64_t ms)
{
	expect_eq(clock_wait_until(clock_now_ns() + ms * MS, NULL, 0), 0);
}

static uint64_t missed_of(pid_t pid)
{
	const struct segment_process *process = slot_of(pid);

	return process ? engine_missed_ns(&process->lateness) : 0;
}

/* How late a process is now shows when it is late no more: so it is asked again two
 * kernels later. */
static void wait_until_heard_of(pid_t pid)
{
	const volatile struct segment_process *process = slot_of(pid);
	uint64_t kernels;

	expect(process != NULL);
	kernels = process->usage[0].kernels;
	while (process->usage[0].kernels < kernels + 2)
		wait_ms(1);
}

struct outcome {
	uint64_t busy_ns[2], passed_ns;
	uint64_t unsure_ns; /* the processes came so late, and we read their figures so slowly */
	unsigned utilisation, processes;
};

/* The output of the simulated nvidia-smi: the number in its first text line, and how many of them
 * there are. */
static unsigned smi(const char *query, unsigned *ret_lines)
{
	char command[512], line[128];
	unsigned value = 0, lines = 0;
	FILE *output;

	snprintf(command, sizeof(command), "\"%s\" %s --format=csv,noheader,nounits",
		 getenv("NVIDIA_SMI"), query);
	output = popen(command, "r");
	expect(output != NULL);
	while (fgets(line, sizeof(line), output))
		if (!lines++)
			value = (unsigned)strtoul(line, NULL, 10);
	expect_eq(pclose(output), 0);
	*ret_lines = lines;
	return value;
}

/* The time that both have been given up to now; returns when that was. */
static uint64_t look(const pid_t pids[2], struct outcome *outcome)
{
	uint64_t now_ns = clock_now_ns();

	for (int i = 0; i < 2; i++)
		outcome->busy_ns[i] = busy_of(pids[i]) - outcome->busy_ns[i];
	outcome->unsure_ns += clock_now_ns() - now_ns;
	return now_ns;
}

static struct outcome share(const char *dilate, uint64_t first_ns, uint64_t second_ns,
			    uint64_t expected_ns)
{
	struct outcome outcome = {0};
	uint64_t start_ns, missed_ns;
	unsigned lines;
	pid_t pids[2];

	given(dilate);
	expect_eq(segment_join(), 0);
	pids[0] = start(first_ns, expected_ns);
	pids[1] = start(second_ns, expected_ns);
	while (!busy_of(pids[0]) || !busy_of(pids[1]))
		wait_ms(1);
	wait_ms(SETTLE_MS);
	missed_ns = missed_of(pids[0]) + missed_of(pids[1]);
	start_ns = look(pids, &outcome);
	wait_ms(WINDOW_MS);
	outcome.passed_ns = look(pids, &outcome) - start_ns;
	outcome.utilisation = smi("--query-gpu=utilization.gpu", &lines);
	expect_eq(lines, 1);
	best_effort(smi("--query-compute-apps=pid", &outcome.processes));
	for (int i = 0; i < 2; i++)
		wait_until_heard_of(pids[i]);
	outcome.unsure_ns += missed_of(pids[0]) + missed_of(pids[1]) - missed_ns;
	end(pids[0]);
	end(pids[1]);
	clean();
	printf("shares %.3f %.3f of the time, unsure by %.3f; utilisation %u %%\n",
	       (double)outcome.busy_ns[0] / (double)outcome.passed_ns,
	       (double)outcome.busy_ns[1] / (double)outcome.passed_ns,
	       (double)outcome.unsure_ns / (double)outcome.passed_ns, outcome.utilisation);
	return outcome;
}

static bool halves(const struct outcome *outcome, uint64_t unsure_ns)
{
	for (int i = 0; i < 2; i++)
		if (outcome->busy_ns[i] + unsure_ns < outcome->passed_ns / 100 * 48 ||
		    outcome->busy_ns[i] > outcome->passed_ns / 100 * 52 + unsure_ns)
			return false;
	return outcome->utilisation <= 100 &&
	       outcome->utilisation * (PERIOD_MS * MS / 100) + unsure_ns >=
		       95 * (PERIOD_MS * MS / 100);
}

/* Shares that are off as far as the host was late prove nothing: again, slower. */
static void expect_halves(uint64_t first_ns, uint64_t second_ns, uint64_t expected_ns)
{
	static const char *const factors[] = {"1", "3", "8"};

	for (size_t i = 0; i < ARRAY_SIZE(factors); i++) {
		struct outcome outcome = share(factors[i], first_ns, second_ns, expected_ns);

		expect_eq(outcome.processes, 2);
		expect(halves(&outcome, outcome.unsure_ns));
		if (halves(&outcome, 0))
			return;
	}
	test_skip("the host was late each time; run it on a machine with less to do");
}

TEST(two_processes_with_kernels_of_ten_milliseconds_get_half_each)
{
	expect_halves(10 * MS, 10 * MS, 0);
}

TEST(kernels_of_unequal_length_get_equal_time)
{
	expect_halves(10 * MS, 40 * MS, 10 * MS);
}

TEST(a_process_alone_has_it_all)
{
	uint64_t start_ns, last_ns, first_ns, busy_ns, missed_ns;
	pid_t pid;

	given("1");
	expect_eq(segment_join(), 0);
	pid = start(10 * MS, 0);
	while (!busy_of(pid))
		wait_ms(1);
	missed_ns = missed_of(pid);
	start_ns = clock_now_ns();
	first_ns = busy_of(pid);
	last_ns = clock_now_ns();
	/* However late the host is: what it missed is claimed when the next kernel comes. */
	do {
		wait_ms(10);
		busy_ns = busy_of(pid) - first_ns;
	} while (busy_ns < 300 * MS || busy_ns + 30 * MS < clock_now_ns() - last_ns);
	/* From before our first reading only time that was claimed after it. */
	expect(busy_ns <= clock_now_ns() - start_ns + missed_of(pid) - missed_ns);
	end(pid);
	clean();
}

TEST(a_process_that_is_stopped_in_a_slice_stops_no_other)
{
	uint64_t first_ns, end_ns;
	struct engine_ticket ticket;
	pid_t pid;

	given("1");
	expect_eq(segment_join(), 0);
	pid = start(1000 * 1000 * MS, 0);
	while (!busy_of(pid))
		wait_ms(1);
	kill(pid, SIGSTOP);
	first_ns = clock_now_ns();
	engine_kernel_begin(0, 0, first_ns, 0, &ticket);
	expect_eq(engine_kernel_end(&ticket, 20 * MS, &end_ns, NULL), 0);
	/* Half the engine's time: the device goes on with what it was given. */
	expect(end_ns >= first_ns + 36 * MS);
	kill(pid, SIGCONT);
	end(pid);
	clean();
}

/* How long a kernel took, beside which a process was killed that had work for ever. */
static uint64_t beside_a_killed_one(uint64_t kernel_ns)
{
	pid_t pid = start(1000 * 1000 * MS, 0);
	struct engine_ticket ticket;
	uint64_t first_ns, end_ns;

	while (!busy_of(pid))
		wait_ms(1);
	first_ns = clock_now_ns();
	engine_kernel_begin(0, 0, first_ns, 0, &ticket);
	end(pid);
	expect_eq(engine_kernel_end(&ticket, kernel_ns, &end_ns, NULL), 0);
	return end_ns - first_ns;
}

TEST(the_engine_is_ours_from_when_a_death_is_noticed)
{
	uint64_t kernel_ns = 250 * MS, took_ns;

	given("1");
	expect_eq(segment_join(), 0);
	/* With half the engine it would take twice as long. A busy host kills late, and notices
	 * late: then again, with a kernel beside which that is little. */
	do {
		kernel_ns *= 4;
		took_ns = beside_a_killed_one(kernel_ns);
	} while (took_ns > kernel_ns / 2 * 3 && kernel_ns < 16000 * MS);
	expect(took_ns <= kernel_ns / 2 * 3);
	clean();
}
