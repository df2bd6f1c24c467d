/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay_memory.h"

#include <string.h>

#include "cli/replay_parts.h"
#include "cli/values.h"
#include "replay/memory_faults.h"
#include "replay/memory_pods.h"
#include "replay/memory_report.h"

enum { TENANTS_MOST = 256 };

static int parse_load(const char *text, void *ret_load, uint32_t *ret_count, struct fault *why)
{
	return memory_load_parse(text, ret_load, ret_count, why);
}

static int parse_bytes(const struct cli_call *call, const char *option, uint64_t *field,
		       struct fault *why)
{
	const char *text = cli_value(call, option);

	if (text && memory_load_bytes(text, field) < 0)
		return fault_set(why, -EINVAL,
				 "--%s '%s': accepted: an amount, as in 16G or 141GiB", option,
				 text);
	return 0;
}

/* "12", or "26:18.6" */
static int parse_link(const struct cli_call *call, struct memory_setup *setup, struct fault *why)
{
	const char *text = cli_value(call, "link");
	char *end;

	if (!text)
		return 0;
	setup->alone_gbps = setup->both_gbps = strtod(text, &end);
	if (end != text && *end == ':') {
		text = end + 1;
		setup->both_gbps = strtod(text, &end);
	}
	if (end == text || *end || !(setup->alone_gbps > 1e-3 && setup->alone_gbps < 1e4) ||
	    !(setup->both_gbps > 1e-3 && setup->both_gbps <= setup->alone_gbps))
		return fault_set(why, -EINVAL,
				 "--link '%s': accepted: GB/s each way, as in 12, or as in 26:18.6 "
				 "where each way is slower while both are busy",
				 cli_value(call, "link"));
	return 0;
}

static int parse(const struct cli_call *call, struct memory_setup *setup,
		 struct replay_tenants *tenants, struct fault *why)
{
	int r = values_time(call, "length", 1, TIME_LOAD_MOST, &setup->length_ns, why);

	if (r == 0)
		r = values_time(call, "delay", 1, TIME_LOAD_MOST, &setup->delay_ns, why);
	if (r == 0)
		r = values_time(call, "turn", 1, TIME_LOAD_MOST, &setup->residency.turn_ns, why);
	if (r == 0)
		r = parse_bytes(call, "device", &setup->device_bytes, why);
	if (r == 0 && !setup->device_bytes)
		r = fault_set(why, -EINVAL, "--device '%s' is zero; accepted: an amount, as in 16G",
			      cli_value(call, "device"));
	if (r == 0)
		r = parse_bytes(call, "store", &setup->store_bytes, why);
	if (r == 0)
		r = parse_link(call, setup, why);
	if (r == 0)
		r = values_part(call, "cost", 1, 1000, &setup->residency.cost_milli, why);
	if (r == 0)
		r = replay_tenants_read(tenants, call, why);
	if (r == 0 && cli_value(call, "managed") && cli_value(call, "pods"))
		r = fault_set(why, -EINVAL, "--managed is for tenants with jobs, not for --pods");
	setup->loads = tenants->loads;
	setup->tenants = tenants->size;
	return r;
}

static int write_report(const char *folder, const struct memory_report *report, struct fault *why)
{
	owned(replay_output_close) struct replay_output output = {0};
	int r = replay_output_open(folder, "memory", &output, why);

	if (r < 0)
		return r;
	memory_report_json(output.json, report);
	memory_report_svg(output.svg, report);
	return replay_output_check(&output, why);
}

static int run_world(const struct memory_setup *setup, bool managed,
		     struct memory_outcome *ret_outcome, struct fault *why)
{
	struct memory_faults faults;

	if (!managed)
		return memory_world_run(setup, ret_outcome, why);
	memory_faults_init(&faults);
	return memory_faults_run(setup, &faults, ret_outcome, why);
}

static int run_tenants(const struct cli_call *call, const struct memory_setup *setup,
		       struct fault *why)
{
	const char *output = cli_value(call, "output");
	struct memory_outcome outcome;
	struct memory_report report = {
		.setup = setup,
		.outcome = &outcome,
		.sequential_ns = memory_report_sequential(setup),
	};
	int r = run_world(setup, cli_value(call, "managed"), &outcome, why);

	if (r < 0)
		return r;
	if (cli_value(call, "json"))
		memory_report_json(stdout, &report);
	else
		memory_report_print(stdout, &report);
	r = output ? write_report(output, &report, why) : 0;
	memory_outcome_done(&outcome, setup->tenants);
	return r;
}

static int run_pods(const struct cli_call *call, const struct memory_setup *setup,
		    struct fault *why)
{
	struct memory_pods_job job;
	struct memory_pods_sums sums;
	int r;

	memory_pods_init(&job);
	job.path = cli_value(call, "pods");
	job.setup = *setup;
	job.progress = cli_value(call, "quiet") ? NULL : stderr;
	r = memory_pods_run(&job, &sums, why);
	if (r < 0)
		return r;
	if (cli_value(call, "json"))
		memory_pods_json(stdout, &job, &sums);
	else
		memory_pods_print(stdout, &job, &sums);
	return 0;
}

int replay_memory_main(const struct cli_call *call)
{
	struct replay_tenants tenants = {
		.most = TENANTS_MOST,
		REPLAY_KIND(memory_load),
		.parse = parse_load,
		.example = "'2x set=15.3G load=job:300s:20s:20s'",
	};
	struct memory_setup setup;
	struct fault why;
	int r, status = CLI_USAGE;

	memory_setup_init(&setup);
	setup.device_bytes = 16ull << 30;
	setup.store_bytes = 64ull << 30;
	if (cli_value(call, "pods"))
		memory_pods_setup(&setup);
	r = parse(call, &setup, &tenants, &why);
	if (r == 0) {
		status = 1;
		r = cli_value(call, "pods") ? run_pods(call, &setup, &why)
					    : run_tenants(call, &setup, &why);
	}
	free(tenants.loads);
	return r < 0 ? cli_fail(call, status, &why) : 0;
}
