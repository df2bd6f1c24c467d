/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mete-sim: says what the simulated machine is like, as its environment and the processes on it
 * have made it: devices and who uses them, or (--settings) what can be set.
 *
 * --ledger keeps the node as it is until its input ends, and then says what each process did, the
 * ended ones included, in lines for scripts:
 *
 *	device N lane NAME busy_ns B		for each lane: compute, in, out, within, peer
 *	process PID NAME device N compute_ns B kernels K late_p50_ns L late_p99_ns L missed_ns M
 *STATE
 *
 * STATE: alive, ended. Late is how long after its modelled end work was complete; missed, for how
 * long in all work was ready and its engine had not heard of it. Whether that spoils a measurement
 *of time depends on what was measured; the clock's dilation (METE_SIM_DILATE) makes it less.
 */
#include <stdio.h>
#include <string.h>

#include "sim/device.h"
#include "sim/engine.h"
#include "sim/segment.h"

static void print_bytes(uint64_t bytes)
{
	printf("%.2f GiB", (double)bytes / (double)(1 << 30));
}

static void print_device(int number)
{
	const struct settings_device *shape = device_shape(number);
	uint64_t free_bytes, total_bytes;
	char uuid[41];

	device_uuid_text(number, uuid);
	device_memory(number, &free_bytes, &total_bytes);
	printf("device %d: %s, %s\n  memory ", number, shape->name, uuid);
	print_bytes(total_bytes);
	fputs(", in use ", stdout);
	print_bytes(total_bytes - free_bytes);
	printf("; %u SMs, compute capability %u.%u\n", shape->sms, shape->capability_major,
	       shape->capability_minor);
	printf("  host link %.1f GB/s each way, device memory %.0f GB/s\n",
	       (double)shape->link_rate / 1e9, (double)shape->device_rate / 1e9);
}

static void print_processes(int number)
{
	const struct segment *segment = segment_get();

	for (uint32_t i = 0; i < segment_slots(segment); i++) {
		const struct segment_process *process = &segment->processes[i];
		const struct segment_usage *usage = &process->usage[number];

		if (process->state != SEGMENT_ALIVE || process == segment_self())
			continue;
		printf("  pid %d (%s): holds ", segment_pid(process), process->name);
		print_bytes(device_used_by(number, i));
		printf(", computed %.3f s\n", (double)usage->busy_ns[SEGMENT_COMPUTE] / 1e9);
	}
}

static void print_settings(void)
{
	const struct settings *settings = segment_settings();
	const struct settings_row *row;

	printf("METE_SIM_DEVICES: the devices, as in 2xH200,1xT4; models:");
	for (size_t i = 0; settings_model(i); i++)
		printf(" %s", settings_model(i));
	printf("\nMETE_SIM_DIR: what the processes of one node share; now %s\n", segment_folder());
	for (size_t i = 0; (row = settings_row(i)); i++)
		printf("%-24s default %-8s %s%s\n", row->variable, row->value, row->meaning,
		       settings->given >> i & 1 ? " (set)" : "");
}

static void print_ledger(void)
{
	static const char *const lanes[SEGMENT_LANES] = {"compute", "in", "out", "within", "peer"};
	const struct segment *segment = segment_get();

	segment_reap();
	for (int n = 0; n < device_count(); n++) {
		for (unsigned lane = 0; lane < SEGMENT_LANES; lane++)
			printf("device %d lane %s busy_ns %llu\n", n, lanes[lane],
			       (unsigned long long)engine_device_busy_ns(n, lane));
		for (uint32_t i = 0; i < segment_slots(segment); i++) {
			const struct segment_process *process = &segment->processes[i];
			uint64_t busy_ns = engine_busy_ns(n, i, SEGMENT_COMPUTE);

			if (process->state == SEGMENT_FREE || !process->usage[n].kernels)
				continue;
			printf("process %d %s device %d compute_ns %llu kernels %llu "
			       "late_p50_ns %llu late_p99_ns %llu missed_ns %llu %s\n",
			       process->pid, process->name, n, (unsigned long long)busy_ns,
			       (unsigned long long)process->usage[n].kernels,
			       (unsigned long long)engine_lateness_ns(&process->lateness, 50),
			       (unsigned long long)engine_lateness_ns(&process->lateness, 99),
			       (unsigned long long)engine_missed_ns(&process->lateness),
			       process->state == SEGMENT_ALIVE ? "alive" : "ended");
		}
	}
}

static int ledger(void)
{
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF)
		;
	print_ledger();
	return fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	bool settings = argc == 2 && strcmp(argv[1], "--settings") == 0;
	bool keep = argc == 2 && strcmp(argv[1], "--ledger") == 0;
	uint64_t driver;

	if (argc > 1 && !settings && !keep) {
		fputs("Usage: mete-sim [--settings | --ledger]\n", stderr);
		return 2;
	}
	if (segment_join() < 0)
		return 1; /* it has said why */
	if (keep)
		return ledger();
	if (settings) {
		print_settings();
		return 0;
	}
	driver = segment_settings()->driver;
	printf("simulated node in %s: CUDA driver %llu.%llu, %d device%s\n", segment_folder(),
	       (unsigned long long)driver / 1000, (unsigned long long)driver % 1000 / 10,
	       device_count(), device_count() == 1 ? "" : "s");
	for (int i = 0; i < device_count(); i++) {
		print_device(i);
		print_processes(i);
	}
	return 0;
}
