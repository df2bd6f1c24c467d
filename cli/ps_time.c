/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ps_time.h"

#include <stdio.h>

#include "base/macros.h"
#include "base/text.h"

static const char *turn_name(uint32_t turn)
{
	static const char *const names[] = {
		[WIRE_TURN_NONE] = "-",	       [WIRE_TURN_SILENT] = "silent",
		[WIRE_TURN_CAPPED] = "capped", [WIRE_TURN_WAITS] = "waits",
		[WIRE_TURN_RUNS] = "runs",     [WIRE_TURN_ENDS] = "runs",
		[WIRE_TURN_HANGS] = "hangs",   [WIRE_TURN_SUSPENDED] = "suspended",
	};

	return turn < ARRAY_SIZE(names) ? names[turn] : "unknown";
}

bool ps_time_matters(const struct wire_tenant_row *tenant)
{
	return tenant->governed || tenant->turns || tenant->turn != WIRE_TURN_NONE;
}

static double percent(uint64_t ns, uint64_t window_s)
{
	return (double)ns / 1e7 / (double)window_s;
}

/* In thousandths of the device's time. */
static int drift_milli(const struct wire_tenant_row *t)
{
	return (int)t->busy_charged - (int)t->busy;
}

struct drift {
	char text[16];
};

/* "-": the driver has not said. */
static struct drift drift_text(const struct wire_tenant_row *t)
{
	struct drift drift = {"-"};

	if (t->busy)
		snprintf(drift.text, sizeof(drift.text), "%+.1f%%", drift_milli(t) / 10.0);
	return drift;
}

void ps_time_heading(void)
{
	printf("\n%-4s %-19s %-4s %9s %9s %9s %9s %8s %9s %12s %12s  %-10s %s\n", "ID", "TIME OF",
	       "GPU", "HAD 1s", "DUE 1s", "HAD 60s", "DUE 60s", "DRIFT", "TURNS", "MEAN WAIT",
	       "LONGEST", "NOW", "SHARE");
}

void ps_time_line(const struct wire_tenant_row *t)
{
	wire_text name = t->name;

	name.text[text_fit(name.text, 19)] = '\0';
	printf("%-4u %-19s %-4u %8.1f%% %8.1f%% %8.1f%% %8.1f%% %8s %9llu %10.2fms %10.2fms  "
	       "%-10s %s\n",
	       t->tenant, name.text, t->device, percent(t->charged_1s, 1),
	       percent(t->entitled_1s, 1), percent(t->charged_60s, 60),
	       percent(t->entitled_60s, 60), drift_text(t).text, (unsigned long long)t->turns,
	       t->waits ? (double)t->waited / (double)t->waits / 1e6 : 0.0,
	       (double)t->longest_wait / 1e6, turn_name(t->turn), t->share.text);
}

void ps_time_json(cJSON *object, const struct wire_tenant_row *t)
{
	cJSON *time = cJSON_AddObjectToObject(object, "time");
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {
		{"turns", t->turns},
		{"waits", t->waits},
		{"waited_ns", t->waited},
		{"longest_wait_ns", t->longest_wait},
		{"charged_ns", t->charged},
		{"entitled_ns", t->entitled},
		{"charged_1s_ns", t->charged_1s},
		{"entitled_1s_ns", t->entitled_1s},
		{"charged_60s_ns", t->charged_60s},
		{"entitled_60s_ns", t->entitled_60s},
		{"in_flight_ns", t->flight},
	};

	cJSON_AddBoolToObject(time, "by_turns", t->governed != 0);
	cJSON_AddStringToObject(time, "now", turn_name(t->turn));
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
		cJSON_AddNumberToObject(time, numbers[i].name, (double)numbers[i].value);
	if (t->busy) {
		cJSON_AddNumberToObject(time, "driver_busy", ((double)t->busy - 1) / 1000);
		cJSON_AddNumberToObject(time, "drift", drift_milli(t) / 1000.0);
	}
	cJSON_AddStringToObject(object, "share", t->share.text);
}
