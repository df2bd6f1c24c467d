/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `mete replay`: what a policy would have done. Here placement: openb's protocol, its published
 * policies and ours; time is in cli/replay_time.c.
 */
#include <string.h>
#include <sys/stat.h>

#include "cli/cli.h"
#include "cli/replay_memory.h"
#include "cli/replay_modes.h"
#include "cli/replay_time.h"
#include "cli/values.h"
#include "replay/job.h"

/* A number of at most three digits behind the point, in thousandths. */
static int thousandths(const char *option, const char *text, uint32_t least, uint32_t most,
		       uint32_t *ret_value, struct fault *why)
{
	char *end;
	double value;

	if (!text)
		return 0;
	value = strtod(text, &end);
	if (*text < '0' || *text > '9' || *end || value * 1000 < least || value * 1000 > most)
		return fault_set(why, -EINVAL, "--%s '%s': a number from %g to %g is needed",
				 option, text, least / 1000.0, most / 1000.0);
	*ret_value = (uint32_t)(value * 1000 + 0.5);
	return 0;
}

static int parse_departures(const struct cli_call *call, struct replay_job *job, struct fault *why)
{
	const char *length = cli_value(call, "lifetimes");
	uint32_t load = 900, lifetimes = 15000, warm_up = 5000;
	int r;

	job->departures = cli_value(call, "departures");
	if (!job->departures && (cli_value(call, "load") || length || cli_value(call, "warm_up") ||
				 cli_value(call, "recorded") || cli_value(call, "stated")))
		return fault_set(why, -EINVAL,
				 "--load, --lifetimes, --warm-up, --recorded and --stated need "
				 "--departures");

	r = values_part(call, "load", 10, 10000, &load, why);
	if (r == 0)
		r = thousandths("lifetimes", length, 100, 1000000, &lifetimes, why);
	if (r == 0)
		r = thousandths("warm-up", cli_value(call, "warm_up"), 0, 1000000, &warm_up, why);
	if (r == 0 && warm_up >= lifetimes)
		r = fault_set(why, -EINVAL,
			      "the warm-up takes %g lifetimes and the whole run %g: nothing would "
			      "be measured",
			      warm_up / 1000.0, lifetimes / 1000.0);
	job->living = (struct departures_run){.load_milli = load,
					      .lifetimes = lifetimes / 1000.0,
					      .warm_up = warm_up / 1000.0,
					      .recorded = cli_value(call, "recorded"),
					      .stated = cli_value(call, "stated"),
					      .windows = 60};
	return r;
}

static int parse(const struct cli_call *call, struct replay_job *job, struct fault *why)
{
	const char *lists = cli_value(call, "lists"), *seeds = cli_value(call, "seeds");
	const char *ties = cli_value(call, "ties");
	int r;

	if (call->argc != 1)
		return fault_set(
			why, -EINVAL,
			"one folder is needed: the one that holds openb_node_list_gpu_node.csv");
	job->folder = call->argv[0];
	job->how.overcommit_milli = 1000;
	if (values_part(call, "overcommit", 1000, 4000, &job->how.overcommit_milli, why) < 0)
		return -EINVAL;
	if (ties && strcmp(ties, "random") != 0 && strcmp(ties, "file") != 0)
		return fault_set(why, -EINVAL, "--ties '%s': random or file is accepted", ties);
	job->how.trace_order = ties && strcmp(ties, "file") == 0;
	job->how.no_memory = cli_value(call, "no_host_memory");
	r = parse_departures(call, job, why);
	if (r < 0)
		return r;
	r = replay_job_lists(job, lists ? lists : "default", why);
	if (r == 0)
		r = replay_job_policies(job, cli_value(call, "policies"), why);
	if (r == 0)
		r = replay_job_seeds(job, seeds ? seeds : "42-51", why);
	return r;
}

static int write_file(const char *folder, const char *list, const char *suffix,
		      const struct replay_results *results, size_t index, struct fault *why)
{
	char path[4096];
	owned(fclose) FILE *out = NULL;

	snprintf(path, sizeof(path), "%s/%s%s", folder, list, suffix);
	out = fopen(path, "we");
	if (!out)
		return fault_set(why, -errno, "%s: %s", path, strerror(errno));
	if (results->outcomes && strcmp(suffix, ".json") == 0)
		departures_print_json(out, results);
	else if (results->outcomes)
		departures_print_svg(out, results, index);
	else if (strcmp(suffix, ".json") == 0)
		replay_print_json(out, results);
	else
		replay_print_svg(out, results, index, strcmp(suffix, "-stranded.svg") == 0);
	if (fflush(out) != 0 || ferror(out))
		return fault_set(why, -EIO, "%s: %s", path, strerror(errno));
	return 0;
}

/* Checked first, before minutes are spent on results that cannot be stored. */
static int check_output(const char *folder, struct fault *why)
{
	struct stat is;

	if (mkdir(folder, 0777) < 0 && errno != EEXIST)
		return fault_set(why, -errno, "%s: %s", folder, strerror(errno));
	if (stat(folder, &is) < 0)
		return fault_set(why, -errno, "%s: %s", folder, strerror(errno));
	if (!S_ISDIR(is.st_mode))
		return fault_set(why, -ENOTDIR, "%s: %s", folder, strerror(ENOTDIR));
	if (access(folder, W_OK | X_OK) < 0)
		return fault_set(why, -errno, "%s: %s", folder, strerror(errno));
	return 0;
}

static int write_output(const char *folder, const struct replay_results *results, struct fault *why)
{
	const struct replay_job *job = results->job;
	int r;

	r = write_file(folder, "replay", ".json", results, 0, why);
	for (size_t i = 0; i < job->lists_size && r == 0; i++) {
		if (!results->outcomes)
			r = write_file(folder, job->lists[i], "-allocated.svg", results, i, why);
		if (r == 0)
			r = write_file(folder, job->lists[i], "-stranded.svg", results, i, why);
	}
	return r;
}

static void print(const struct cli_call *call, const struct replay_results *results)
{
	bool json = cli_value(call, "json");

	if (json && results->outcomes)
		departures_print_json(stdout, results);
	else if (json)
		replay_print_json(stdout, results);
	else if (results->outcomes)
		departures_print_tables(stdout, results);
	else
		replay_print_tables(stdout, results);
}

int replay_main(const struct cli_call *call)
{
	owned(free) struct replay_job *job = calloc(1, sizeof(*job));
	const char *output = cli_value(call, "output");
	struct replay_results results;
	struct fault why = {"out of memory"};
	int r;

	if (replay_modes_check(call, &why) < 0)
		return cli_fail(call, CLI_USAGE, &why);
	if (cli_value(call, "time"))
		return replay_time_main(call);
	if (cli_value(call, "memory"))
		return replay_memory_main(call);
	if (!job)
		return cli_fail(call, 1, &why);
	if (parse(call, job, &why) < 0)
		return cli_fail(call, CLI_USAGE, &why);
	if (output && check_output(output, &why) < 0)
		return cli_fail(call, 1, &why);
	if (!cli_value(call, "quiet"))
		job->progress = stderr;
	if (replay_job_run(job, &results, &why) < 0)
		return cli_fail(call, 1, &why);
	print(call, &results);
	r = output ? write_output(output, &results, &why) : 0;
	replay_results_done(&results);
	return r < 0 ? cli_fail(call, 1, &why) : 0;
}
