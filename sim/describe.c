/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mete-sim: says what the simulated machine is like, as its environment and the processes on it
 * have made it: devices and who uses them, or (--settings) what can be set.
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

	for (uint32_t i = 0; i < SEGMENT_PROCESSES_MAX; i++) {
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

int main(int argc, char **argv)
{
	bool settings = argc == 2 && strcmp(argv[1], "--settings") == 0;
	uint64_t driver;

	if (argc > 1 && !settings) {
		fputs("Usage: mete-sim [--settings]\n", stderr);
		return 2;
	}
	if (segment_join() < 0)
		return 1; /* it has said why */
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
