/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/run_report.h"

#include <string.h>
#include <sys/wait.h>

#include "base/text.h"
#include "cli/ps_json.h"
#include "cli/ps_fetch.h"

int run_report_open(const struct cli_call *call, struct run_report *ret_report, struct fault *why)
{
	const char *path = cli_value(call, "report_json");

	*ret_report = (struct run_report){.json = path ? fopen(path, "we") : NULL};
	return path && !ret_report->json
		       ? fault_set(why, -errno, "--report-json %.200s: %s", path, strerror(errno))
		       : 0;
}

void run_report_close(struct run_report *report)
{
	if (report->json)
		fclose(report->json);
	report->json = NULL;
}

/* "; 3.2 s of its time, and 0.4 s waited for turns", if it had turns. */
static void say_time(const struct wire_tenant_row *seen)
{
	if (seen->turns)
		fprintf(stderr, "; %.1f s of its time in %llu turns, and %.1f s waited for them",
			(double)seen->charged / 1e9, (unsigned long long)seen->turns,
			(double)seen->waited / 1e9);
}

static void say_rest(const struct wire_tenant_row *seen)
{
	if (seen->moved_out)
		fprintf(stderr, "; %s moved to the host's memory and %s back",
			text_size(seen->moved_out, TEXT_UP).text,
			text_size(seen->moved_in, TEXT_UP).text);
	if (seen->refusals)
		fprintf(stderr, "; memory was refused %llu time%s",
			(unsigned long long)seen->refusals, seen->refusals == 1 ? "" : "s");
	fputc('\n', stderr);
}

/* One line for each device. */
static void say_lines(const struct ps_rows *rows, uint32_t tenant)
{
	for (size_t i = 0; i < rows->count; i++) {
		const struct wire_tenant_row *seen = &rows->row[i].tenant_row;

		if (rows->row[i].code != WIRE_tenant_row || seen->tenant != tenant)
			continue;
		fprintf(stderr, "mete run: %s on GPU %u: held at most %s of %s", seen->name.text,
			seen->device, text_size(seen->peak, TEXT_UP).text,
			text_size(seen->limit, TEXT_DOWN).text);
		say_time(seen);
		say_rest(seen);
	}
}

static bool came(const struct ps_rows *rows, uint32_t tenant)
{
	for (size_t i = 0; i < rows->count; i++)
		if (rows->row[i].code == WIRE_tenant_row &&
		    rows->row[i].tenant_row.tenant == tenant && rows->row[i].tenant_row.joins)
			return true;
	return false;
}

/* If the program could not be run, that was reported: then it is no news that no process joined. */
static bool ran(int status)
{
	return !WIFEXITED(status) || (WEXITSTATUS(status) != 126 && WEXITSTATUS(status) != 127);
}

static void write_json(const struct cli_call *call, const struct run_report *report,
		       const struct ps_rows *rows, bool joined, const char *trouble)
{
	struct ps_report said = {
		.tenant = report->tenant,
		.name = report->name,
		.status = WIFEXITED(report->status) ? WEXITSTATUS(report->status) : -1,
		.signal = WIFSIGNALED(report->status) ? WTERMSIG(report->status) : 0,
		.joined = joined,
		.trouble = trouble,
	};

	ps_json_report(report->json, rows, &said);
	if (fflush(report->json) != 0 || ferror(report->json))
		best_effort(cli_complain(call, 0, "--report-json %.200s cannot be written: %s",
					 cli_value(call, "report_json"), strerror(errno)));
}

void run_report_say(const struct cli_call *call, struct admin *admin,
		    const struct run_report *report)
{
	bool wanted = cli_value(call, "report") != NULL, quiet = cli_value(call, "quiet") != NULL;
	owned(ps_rows_free) struct ps_rows rows = {0};
	struct fault why;
	bool joined;
	int r;

	if (!wanted && !report->json && quiet)
		return;
	/* With the devices if their UUIDs are needed. */
	r = ps_fetch_rows(admin, report->json ? 0 : report->tenant, &rows, &why);
	if (r == 0)
		why.text[0] = '\0';
	/* The figures of an earlier meted are lost. */
	joined = !report->whole || came(&rows, report->tenant);
	if (wanted)
		say_lines(&rows, report->tenant);
	if (report->json)
		write_json(call, report, &rows, joined, why.text);
	if (r == 0 && !joined && !quiet && ran(report->status))
		fprintf(stderr,
			"mete run: no process of %s joined mete: if it used a GPU, nothing was "
			"limited (static programs, a cleared environment and a driver opened by "
			"its absolute path bypass mete)\n",
			call->argv[0]);
	if (r < 0 && wanted)
		best_effort(cli_complain(call, 0, "no report: %s", why.text));
}
