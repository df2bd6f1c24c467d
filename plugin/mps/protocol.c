/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/mps/protocol.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/mps/inside.h"

/* It leaves sockets and files for programs of other users. Its server is beside it. */
#define START "umask 022; export PATH=\"${0%/*}:${PATH:-/usr/bin:/bin}\"; exec \"$0\" -d"
#define TABLE "--format=csv,noheader"

/* A script, and what it has as $1, $2 and $3. The program is $0. */
static void run_script(struct mps_daemon *daemon, const char *script, const char *first,
		       const char *second, const char *third)
{
	const char *const words[] = {"/bin/sh", "-c",	script, daemon->hub->control,
				     first,	second, third};

	memcpy(daemon->run.words, words, sizeof(words));
}

static void run_words(struct mps_daemon *daemon, const char *first, const char *second,
		      const char *third, const char *fourth, const char *fifth)
{
	const char *const words[] = {daemon->hub->control, first, second, third, fourth, fifth};

	memcpy(daemon->run.words, words, sizeof(words));
}

/* ---- protocol 2 ---------------------------------------------------------------------------- */

static void say_older(struct mps_daemon *daemon, enum mps_command command)
{
	struct run *r = &daemon->run;

	run_words(daemon, NULL, NULL, NULL, NULL, NULL);
	if (command == MPS_START)
		run_script(daemon, START, NULL, NULL, NULL);
	else if (command == MPS_LIMIT)
		/* "0=1024M" is "0 1024M" here. */
		snprintf(r->input, RUN_TEXT,
			 "set_default_device_pinned_mem_limit 0 %s\n"
			 "set_default_active_thread_percentage %s\n"
			 "get_default_active_thread_percentage\n",
			 daemon->limit + 2, daemon->percent);
	else if (command == MPS_QUIT)
		snprintf(r->input, RUN_TEXT, "quit\n");
	else
		snprintf(r->input, RUN_TEXT, "get_default_active_thread_percentage\n");
}

/* The number with which the last line begins; -1: it begins with none. */
static int last_number(const char *text)
{
	const char *line = text, *end;
	int number = -1;

	for (; line && *line; line = end ? end + 1 : NULL) {
		end = strchr(line, '\n');
		number = *line >= '0' && *line <= '9' ? atoi(line) : -1;
	}
	return number;
}

static bool heard_older(const struct mps_daemon *daemon)
{
	int number = last_number(daemon->run.output);

	if (daemon->run.status != 0)
		return false;
	if (daemon->machine.runs == MPS_LIMIT)
		return number == atoi(daemon->percent);
	return daemon->machine.runs != MPS_ASK || number >= 0;
}

const struct mps_protocol mps_protocol_older = {"2", say_older, heard_older};

/* ---- rows of protocol 3 -------------------------------------------------------------------- */

/* What follows "NAME," at the beginning of a row; NULL: there is no such row. */
static const char *find_row(const char *text, const char *name)
{
	size_t length = strlen(name);

	for (const char *end; text && *text; text = end ? end + 1 : NULL) {
		end = strchr(text, '\n');
		if (strncmp(text, name, length) == 0 && text[length] == ',')
			return text + length + 1;
	}
	return NULL;
}

static const char *skip_columns(const char *row, int count)
{
	for (; row && count; count--) {
		row = strchr(row, ',');
		row += row != NULL;
	}
	return row;
}

/* "11700M"; -1: it is no amount. */
static double read_bytes(const char *text)
{
	static const char units[] = "KMGT";
	char *end;
	double amount = strtod(text, &end);
	const char *unit = *end ? strchr(units, *end) : NULL;

	if (end == text)
		return -1;
	return unit ? ldexp(amount, 10 * (int)(unit - units + 1)) : amount;
}

/* Both limits of a namespace, whose row has: server, its status, memory, percentage. A daemon may
 * round the memory in its own units. */
static bool has_limits(const struct mps_daemon *daemon, const char *name)
{
	const char *memory = skip_columns(find_row(daemon->run.output, name), 2),
		   *percent = skip_columns(memory, 1);
	double wanted = read_bytes(daemon->limit + 2), bytes = memory ? read_bytes(memory) : -1;

	return percent && atof(percent) == atof(daemon->percent) && bytes > 0 &&
	       fabs(bytes - wanted) <= wanted / 100;
}

/* ---- protocol 3 ---------------------------------------------------------------------------- */

/* Clients of all users have one server, which is root's; its own namespace, to which nobody is
 * sent, has no more than one replica. A program of the host may be there: see namespace_script. */
static const char server_script[] =
	"case \"\n$(\"$0\" server list " TABLE ")\" in *\"\n" MPS_SERVER ",\"*) ;; "
	"*) \"$0\" server create " MPS_SERVER " || exit;; esac\n"
	"\"$0\" server set " MPS_SERVER " --pinned-memory-limit=\"$1\" "
	"--active-thread-percentage=\"$2\"\n"
	"exec \"$0\" namespace list default --server=" MPS_SERVER " " TABLE;

static void say_newer(struct mps_daemon *daemon, enum mps_command command)
{
	if (command == MPS_START)
		run_script(daemon, START " -m -p 3", NULL, NULL, NULL);
	else if (command == MPS_LIMIT)
		run_script(daemon, server_script, daemon->limit + 2, daemon->percent, NULL);
	else if (command == MPS_QUIT)
		run_words(daemon, "-q", NULL, NULL, NULL, NULL);
	else
		run_words(daemon, "server", "list", TABLE, NULL, NULL);
}

/* One whose server has ended takes no clients: it is told again what it is to have. */
static bool heard_newer(const struct mps_daemon *daemon)
{
	const struct mps *m = &daemon->machine;

	if (daemon->run.status != 0)
		return false;
	if (m->runs == MPS_ASK)
		return !m->limited || find_row(daemon->run.output, MPS_SERVER);
	return m->runs != MPS_LIMIT || has_limits(daemon, "default");
}

const struct mps_protocol mps_protocol_newer = {"3", say_newer, heard_newer};

/* ---- a namespace --------------------------------------------------------------------------- */

/* While it has clients its limits do not change: then it is well if it has them already. */
static const char namespace_script[] =
	"\"$0\" namespace set \"$1\" --server=" MPS_SERVER " --pinned-memory-limit=\"$2\" "
	"--active-thread-percentage=\"$3\"\n"
	"exec \"$0\" namespace list \"$1\" --server=" MPS_SERVER " " TABLE;

static void say_namespace(struct mps_daemon *daemon, enum mps_command command)
{
	static const char server[] = "--server=" MPS_SERVER;

	if (command == MPS_START)
		run_words(daemon, "namespace", "create", daemon->name, server, NULL);
	else if (command == MPS_LIMIT)
		run_script(daemon, namespace_script, daemon->name, daemon->limit + 2,
			   daemon->percent);
	else if (command == MPS_QUIT)
		run_words(daemon, "namespace", "delete", daemon->name, server, NULL);
	else
		run_words(daemon, "namespace", "list", daemon->name, server, TABLE);
}

static bool heard_namespace(const struct mps_daemon *daemon)
{
	if (daemon->run.status != 0)
		return false;
	if (daemon->machine.runs == MPS_ASK)
		return find_row(daemon->run.output, daemon->name);
	return daemon->machine.runs != MPS_LIMIT || has_limits(daemon, daemon->name);
}

const struct mps_protocol mps_protocol_namespace = {"3", say_namespace, heard_namespace};
