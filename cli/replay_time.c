/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay_time.h"

#include <string.h>
#include <time.h>

#include "cli/replay_parts.h"
#include "cli/values.h"
#include "replay/time_pods.h"
#include "replay/time_report.h"

enum { TENANTS_MOST = 4096, LINE_MOST = 1024 };

static int parse_load(const char *text, void *ret_load, uint32_t *ret_count, struct fault *why)
{
	return time_load_parse(text, ret_load, ret_count, why);
}

static int add_file(struct replay_tenants *all, const char *path, struct fault *why)
{
	owned(fclose) FILE *file = fopen(path, "re");
	char line[LINE_MOST];

	if (!file)
		return fault_set(why, -errno, "%s: %s", path, strerror(errno));
	for (size_t number = 1; fgets(line, sizeof(line), file); number++) {
		line[strcspn(line, "#\n")] = 0;
		if (line[strspn(line, " \t")] && replay_tenants_add(all, line, why) < 0) {
			fault_within(why, "%s: line %zu", path, number);
			return -EINVAL;
		}
	}
	return ferror(file) ? fault_set(why, -errno, "%s: %s", path, strerror(errno)) : 0;
}

static int parse_seed(const struct cli_call *call, uint64_t *field, struct fault *why)
{
	const char *text = cli_value(call, "seeds");
	char *end;

	if (!text)
		return 0;
	*field = strtoull(text, &end, 10);
	if (*end || end == text)
		return fault_set(why, -EINVAL, "--seeds '%s': one number is accepted with --time",
				 text);
	return 0;
}

/* ---- tenants --------------------------------------------------------------------------------- */

static int write_report(const char *folder, const struct time_report *report, struct fault *why)
{
	owned(replay_output_close) struct replay_output output = {0};
	int r = replay_output_open(folder, "time", &output, why);

	if (r < 0)
		return r;
	time_report_json(output.json, report);
	time_report_svg(output.svg, report);
	return replay_output_check(&output, why);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int report(const struct cli_call *call, const struct time_report *r, struct fault *why)
{
	const char *output = cli_value(call, "output");

	if (cli_value(call, "json"))
		time_report_json(stdout, r);
	else
		time_report_print(stdout, r);
	return output ? write_report(output, r, why) : 0;
}

static int run_tenants(const struct cli_call *call, struct time_setup *setup, struct fault *why)
{
	struct time_outcome turns = {0}, plain = {0};
	struct time_report r = {.setup = setup, .turns = &turns, .plain = &plain};
	double began = seconds();
	int error;

	if (!cli_value(call, "quiet"))
		fprintf(stderr, "%u tenants, %.0f s\n", setup->tenants,
			(double)setup->length_ns / 1e9);
	error = time_world_run(setup, &turns, why);
	setup->plain = true;
	if (error == 0)
		error = time_world_run(setup, &plain, why);
	setup->plain = false;
	r.real_s = seconds() - began;
	if (error == 0)
		error = report(call, &r, why);
	time_outcome_done(&turns, setup->tenants);
	time_outcome_done(&plain, setup->tenants);
	return error;
}

/* ---- pods ------------------------------------------------------------------------------------ */

static int write_pods(const char *folder, const struct time_pods_job *job,
		      const struct time_pods_row *rows, size_t size, struct fault *why)
{
	owned(replay_output_close) struct replay_output output = {0};
	int r = replay_output_open(folder, "pods", &output, why);

	if (r < 0)
		return r;
	time_pods_json(output.json, job, rows, size);
	time_pods_svg(output.svg, rows, size);
	return replay_output_check(&output, why);
}

static int run_pods(const struct cli_call *call, const struct time_setup *setup,
		    struct time_pods_job *job, struct fault *why)
{
	const char *output = cli_value(call, "output");
	owned(free) struct time_pods_row *rows = NULL;
	size_t size = 0;
	int r;

	job->path = cli_value(call, "pods");
	job->seed = setup->seed;
	job->length_ns = setup->length_ns;
	job->progress = cli_value(call, "quiet") ? NULL : stderr;
	r = time_pods_run(job, &rows, &size, why);
	if (r < 0)
		return r;
	if (cli_value(call, "json"))
		time_pods_json(stdout, job, rows, size);
	else
		time_pods_print(stdout, job, rows, size);
	return output ? write_pods(output, job, rows, size, why) : 0;
}

/* ---------------------------------------------------------------------------------------------- */

static int parse(const struct cli_call *call, struct time_setup *setup, uint64_t *request_ns,
		 struct fault *why)
{
	int r = values_time(call, "length", 100000000, TIME_LOAD_MOST, &setup->length_ns, why);

	if (r == 0)
		r = values_time(call, "delay", 0, TIME_LOAD_MOST, &setup->delay_ns, why);
	if (r == 0)
		r = values_time(call, "request", 1, TIME_LOAD_MOST, request_ns, why);
	return r == 0 ? parse_seed(call, &setup->seed, why) : r;
}

/* Those of the file come first. What it lacks is no mistake of the command line. */
static int read_tenants(const struct cli_call *call, struct replay_tenants *tenants,
			int *ret_status, struct fault *why)
{
	const char *file = cli_value(call, "tenants");
	int r = file ? add_file(tenants, file, why) : 0;

	*ret_status = r < 0 ? 1 : CLI_USAGE;
	return r == 0 ? replay_tenants_read(tenants, call, why) : r;
}

int replay_time_main(const struct cli_call *call)
{
	struct replay_tenants tenants = {
		.most = TENANTS_MOST,
		REPLAY_KIND(time_load),
		.parse = parse_load,
		.example = "'weight=100' 'weight=300 kernel=10ms'",
	};
	struct time_pods_job job;
	struct time_setup setup;
	struct fault why;
	int r, status = CLI_USAGE;

	time_setup_init(&setup);
	time_pods_init(&job);
	r = parse(call, &setup, &job.request_ns, &why);
	if (r == 0)
		r = read_tenants(call, &tenants, &status, &why);
	setup.loads = tenants.loads;
	setup.tenants = tenants.size;
	if (r == 0) {
		status = 1;
		r = cli_value(call, "pods") ? run_pods(call, &setup, &job, &why)
					    : run_tenants(call, &setup, &why);
	}
	free(tenants.loads);
	return r < 0 ? cli_fail(call, status, &why) : 0;
}
