/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mete-sim: describes the simulated machine, as its environment and its processes have made it:
 * devices and the processes that use them, or (--settings) the settings.
 *
 * --ledger keeps the node until its input ends, and then reports what each process did, including
 * ended ones, in lines for scripts:
 *
 *	device N lane NAME busy_ns B		for each lane: compute, in, out, within, peer; N is
 *						from 16 on for parts of GPUs
 *	process PID NAME device N compute_ns B kernels K late_p50_ns L late_p99_ns L missed_ns M
 *STATE
 *
 * STATE: alive, ended. Late: how long after its modelled end work was complete. Missed: for how
 * long in all work was ready before its engine knew of it. Whether that spoils a measurement of
 * time depends on what was measured; the clock's dilation (METE_SIM_DILATE) reduces it.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/machine/device.h"
#include "sim/machine/engine.h"
#include "sim/machine/parts.h"
#include "sim/machine/segment.h"

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

static void print_processes(int number);

/* The parts that MIG has made of it. */
static void print_parts(int number)
{
	int parts[MIG_PARTS];
	unsigned count = parts_list(number, false, parts);

	if (parts_on(number) && !count)
		puts("  divided by MIG, without parts");
	for (unsigned i = 0; i < count; i++) {
		const struct segment_part *part = parts_get(parts[i]);
		uint64_t free_bytes, total_bytes;
		char uuid[41];

		device_uuid_text(parts[i], uuid);
		device_memory(parts[i], &free_bytes, &total_bytes);
		printf("  part %u: MIG %s, %s, memory ", i, mig_row(part->profile)->name,
		       part->state == SEGMENT_PART_MADE ? uuid : "no compute instance");
		print_bytes(total_bytes);
		fputs(", in use ", stdout);
		print_bytes(total_bytes - free_bytes);
		printf("; %u SMs, GPU instance %u\n", part->shape.sms, part->instance);
		print_processes(parts[i]);
	}
}

static bool is_other(const struct segment_process *process)
{
	return process->state == SEGMENT_ALIVE && process != segment_self();
}

/* Does it hold memory there, or has it computed there? */
static bool uses(uint32_t process, int number)
{
	const struct segment_usage *usage = &segment_get()->processes[process].usage[number];

	return usage->contexts || usage->kernels || device_used_by(number, process);
}

static void print_processes(int number)
{
	const struct segment *segment = segment_get();

	for (uint32_t i = 0; i < segment_slots(segment); i++) {
		const struct segment_process *process = &segment->processes[i];
		const struct segment_usage *usage = &process->usage[number];

		if (!is_other(process) || !uses(i, number))
			continue;
		printf("  pid %d (%s): holds ", segment_pid(process), process->name);
		print_bytes(device_used_by(number, i));
		printf(", computed %.3f s\n", (double)usage->busy_ns[SEGMENT_COMPUTE] / 1e9);
	}
}

/* A device of the node, or a part of one. */
static bool is_place(int number)
{
	return parts_is_part((uint32_t)number) ? parts_get(number)->state == SEGMENT_PART_MADE
					       : number < device_count();
}

/* Processes that have called the driver but use none of its devices (yet), such as meted. */
static void print_idle(void)
{
	const struct segment *segment = segment_get();
	bool any = false;

	for (uint32_t i = 0; i < segment_slots(segment); i++) {
		const struct segment_process *process = &segment->processes[i];
		bool idle = is_other(process);

		for (int n = 0; idle && n < (int)segment_places(segment); n++)
			idle = !is_place(n) || !uses(i, n);
		if (!idle)
			continue;
		printf("%s pid %d (%s)", any ? "," : "on no device:", segment_pid(process),
		       process->name);
		any = true;
	}
	if (any)
		putchar('\n');
}

/* The meaning of a value of 0; NULL: 0. */
static const char *zero_of(const struct settings_row *row)
{
	if (strstr(row->meaning, "0: "))
		return "model's";
	return row->kind == SETTINGS_BYTES ? "none" : NULL;
}

/* The units of a kind of values, the smallest first, and how many of one make the next. */
struct units {
	const char *names[5];
	size_t most;
	uint64_t step;
};

static const struct units *units_of(const struct settings_row *row)
{
	static const struct units bytes = {{"", "K", "M", "G", "T"}, 4, 1024};
	static const struct units rates = {{"", "K", "M", "G", "T"}, 4, 1000};
	static const struct units times = {{"ns", "us", "ms", "s"}, 3, 1000};
	static const struct units none = {{""}, 0, 1000};

	if (row->kind == SETTINGS_TIME)
		return &times;
	if (row->kind == SETTINGS_RATE)
		return &rates;
	return row->kind == SETTINGS_BYTES ? &bytes : &none;
}

/* In the largest unit that is exact; but 3.7G, not 3700M. */
static void write_amount(const struct units *units, uint64_t value, char *text, size_t size)
{
	uint64_t step = units->step;
	size_t unit = 0;

	while (value && value % step == 0 && unit < units->most) {
		value /= step;
		unit++;
	}
	if (unit && step == 1000 && unit < units->most && value > step && value % 100 == 0)
		snprintf(text, size, "%llu.%llu%s", (unsigned long long)(value / step),
			 (unsigned long long)(value % step / 100), units->names[unit + 1]);
	else
		snprintf(text, size, "%llu%s", (unsigned long long)value,
			 value ? units->names[unit] : "");
}

/* As it would be written into the variable; a word for 0 if it has a meaning. */
static void print_value(const struct settings_row *row, const struct settings *settings)
{
	uint64_t value = *(const uint64_t *)((const char *)settings + row->offset);
	const char *zero = zero_of(row), *usual = row->value;
	char text[40];

	if (zero && strcmp(usual, "0") == 0)
		usual = zero;
	if (zero && !value)
		snprintf(text, sizeof(text), "%s", zero);
	else if (row->kind == SETTINGS_SWITCH)
		snprintf(text, sizeof(text), "%s", value ? "on" : "off");
	else if (row->kind == SETTINGS_FACTOR)
		snprintf(text, sizeof(text), "%g", (double)value / SETTINGS_FACTOR_ONE);
	else if (row->kind == SETTINGS_VERSION && value)
		snprintf(text, sizeof(text), "%llu.%llu", (unsigned long long)value / 1000,
			 (unsigned long long)value % 1000 / 10);
	else
		write_amount(units_of(row), value, text, sizeof(text));
	printf("%-24s = %-8s default %-8s", row->variable, text, usual);
}

/* Of the environment, and of the node's file. */
static void print_faults(void)
{
	const char *given = getenv("METE_SIM_FAULTS");
	char path[SETTINGS_PATH_MAX + 16], line[512];
	owned(fclose) FILE *file = NULL;

	printf("%-24s = %s  what fails on demand (docs/simulator.md), here or in %s/faults%s\n",
	       "METE_SIM_FAULTS", given && *given ? given : "none", segment_folder(),
	       given && *given ? " (set)" : "");
	snprintf(path, sizeof(path), "%s/faults", segment_folder());
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (*line)
			printf("%-24s   %s\n", "", line);
	}
}

static void print_settings(void)
{
	const struct settings *settings = segment_settings();
	const char *parts = getenv("METE_SIM_PARTS");
	const struct settings_row *row;

	printf("models, for METE_SIM_DEVICES=2xH200,1xT4:");
	for (size_t i = 0; settings_model(i); i++)
		printf(" %s", settings_model(i));
	printf("\n%-24s =", "METE_SIM_DEVICES");
	for (int i = 0; i < device_count(); i++)
		printf("%s1x%s", i ? "," : " ", device_shape(i)->model);
	printf("\n%-24s = %s how devices are linked: 0-1=NV4,0-2=PIX+NV1", "METE_SIM_LINKS",
	       getenv("METE_SIM_LINKS") ?: "");
	printf("\n%-24s = %-8s %-16s how MIG divides the GPUs when the node begins, such as "
	       "0:7x1g.10gb;1:3g.40gb,2g.20gb",
	       "METE_SIM_PARTS", parts && *parts ? parts : "none", "default none");
	printf("\n%-24s = %s what the processes of one node share\n", "METE_SIM_DIR",
	       segment_folder());
	for (size_t i = 0; (row = settings_row(i)); i++) {
		print_value(row, settings);
		printf(" %s%s\n", row->meaning, settings->given >> i & 1 ? " (set)" : "");
	}
	print_faults();
}

static void print_ledger(void)
{
	static const char *const lanes[SEGMENT_LANES] = {"compute", "in", "out", "within", "peer"};
	const struct segment *segment = segment_get();

	segment_reap();
	for (int n = 0; n < (int)segment_places(segment); n++) {
		if (!is_place(n))
			continue;
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

static int printed(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	fprintf(stderr, "mete-sim: its output cannot be written: %s\n", strerror(errno));
	return 1;
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
		return 1; /* it has printed why */
	if (keep)
		return ledger();
	if (settings) {
		print_settings();
		return printed();
	}
	driver = segment_settings()->driver;
	printf("simulated node in %s: CUDA driver %llu.%llu, %d device%s\n", segment_folder(),
	       (unsigned long long)driver / 1000, (unsigned long long)driver % 1000 / 10,
	       device_count(), device_count() == 1 ? "" : "s");
	for (int i = 0; i < device_count(); i++) {
		print_device(i);
		print_processes(i);
		print_parts(i);
	}
	print_idle();
	return printed();
}
