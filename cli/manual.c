/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a man page or the shell completion from cli/commands.def, at build time.
 * Usage: manual page VERB | manual page mete | manual completion bash|zsh|fish
 */
#include <ctype.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/completion.h"
#include "core/doing.h"
#include "core/gate.h"

/* roff: a leading dot or quote is a request, a dash a hyphen, a backslash an escape. */
static void print_roff(const char *text)
{
	if (*text == '.' || *text == '\'')
		fputs("\\&", stdout);
	for (; *text; text++) {
		if (*text == '-')
			fputs("\\-", stdout);
		else if (*text == '\\')
			fputs("\\e", stdout);
		else if (*text == '\n')
			fputs("\n.PP\n", stdout);
		else
			fputc(*text, stdout);
	}
	fputc('\n', stdout);
}

static void print_option_name(const struct cli_option *option)
{
	fputs(".TP\n", stdout);
	if (option->letter)
		printf("\\fB\\-%c\\fR, ", option->letter);
	fputs("\\fB\\-\\-", stdout);
	for (const char *p = option->name; *p; p++)
		fputs(*p == '_' ? "\\-" : (char[]){*p, '\0'}, stdout);
	printf("\\fR%s\\fI%s\\fR\n", option->argument[0] ? "=" : "", option->argument);
}

struct entry {
	const char *verb, *name, *meaning;
};

static const struct entry columns[] = {
#define EXAMPLE(...)
#define STATUS(...)
#define COLUMN(verb, heading, meaning) {#verb, heading, meaning},
#define VARIABLE(...)
#define PLACE(...)
#include "cli/pages.def"
#undef COLUMN
#undef VARIABLE
#define COLUMN(...)
};
static const struct entry variables[] = {
#define VARIABLE(verb, name, meaning) {#verb, name, meaning},
#include "cli/pages.def"
#undef VARIABLE
#undef PLACE
#define VARIABLE(...)
};
static const struct entry places[] = {
#define PLACE(verb, path, meaning) {#verb, path, meaning},
#include "cli/pages.def"
#undef EXAMPLE
#undef STATUS
#undef COLUMN
#undef VARIABLE
#undef PLACE
};

/* The states of a tenant. */
static const struct entry states[] = {
#define DOING(NAME, name, now, meaning) {"ps", name, meaning},
#include "core/doing.def"
#undef DOING
};

/* Why a gate is not open. */
static const struct entry gates[] = {
#define GATE(NAME, name, words, end) {"ps", name, words ". Until: " end},
#include "core/gate.def"
#undef GATE
};

/* The kinds of events. */
static const struct entry events[] = {
#define HAPPENED(NAME, word, meaning) {"events", word, meaning},
#include "core/happened.def"
#undef HAPPENED
};

/* The keys of a full screen. */
static const struct entry screen_keys[] = {
#define KEY(ACT, keys, meaning, more) {"top", keys, meaning more},
#include "cli/top/keys.def"
#undef KEY
};

/* The objects of `mete ps --json`; the verb is the object's name here. */
static const struct entry keys[] = {
#define KEY(object, key, kind, value, meaning) {#object, #key, meaning},
#include "view/ps_keys.def"
#undef KEY
};

static void print_entry(const char *name, const char *meaning)
{
	fputs(".TP\n.B ", stdout);
	print_roff(name);
	if (*meaning)
		print_roff(meaning);
	else
		puts("\\&");
}

/* The entries of a verb, those of all verbs last. */
static void print_section(const char *title, const char *verb, const struct entry *entry,
			  size_t count)
{
	const char *const of[] = {verb, "all"};
	bool any = false;

	for (size_t k = 0; k < ARRAY_SIZE(of); k++) {
		for (size_t i = 0; i < count; i++) {
			if (strcmp(entry[i].verb, of[k]) != 0)
				continue;
			if (!any)
				printf(".SH %s\n", title);
			any = true;
			print_entry(entry[i].name, entry[i].meaning);
		}
	}
}

/* Keys that ps_json.c adds to the table's: objects within objects, and figures that are not always
 * known. */
static const struct entry other_keys[] = {
	{"tenant", "fields",
	 "an object with every field of its share as it is in force; mete-set(1) explains them"},
	{"tenant", "time", "an object, see below"},
	{"tenant", "processes", "a list of objects, see below"},
	{"time", "driver_busy",
	 "the part of the time, as a fraction of 1, in which its processes had kernels on the "
	 "device, as the driver samples it; only if the driver reports it"},
	{"time", "drift",
	 "the part of the last second that it was charged for, minus driver_busy; only with "
	 "driver_busy"},
};

static void print_keys_of(const char *object, const struct entry *entry, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(entry[i].verb, object) == 0)
			print_entry(entry[i].name, entry[i].meaning);
}

static void print_keys(void)
{
	static const struct entry objects[] = {
		{"meted", "meted", "An object, or null if no meted is running:"},
		{"device", "devices", "A list of objects:"},
		{"tenant", "tenants", "A list of objects, one for each device of a tenant:"},
		{"time", "tenants: time", "An object in each of these, about the device's time:"},
		{"process", "tenants: processes", "A list in each of these:"},
		{"outside", "outside",
		 "A list of processes that hold device memory and belong to no tenant:"},
	};

	fputs(".SH JSON\nSizes are in bytes, times in nanoseconds. New keys may be added; no key "
	      "changes its meaning.\n",
	      stdout);
	for (size_t k = 0; k < ARRAY_SIZE(objects); k++) {
		printf(".SS %s\n%s\n", objects[k].name, objects[k].meaning);
		print_keys_of(objects[k].verb, keys, ARRAY_SIZE(keys));
		print_keys_of(objects[k].verb, other_keys, ARRAY_SIZE(other_keys));
	}
}

static void print_report_keys(void)
{
	fputs(".SH JSON\nWhat \\fB\\-\\-report\\-json\\fR writes is an object:\n", stdout);
	print_keys_of("report", keys, ARRAY_SIZE(keys));
	print_entry("devices",
		    "a list of objects, one for each device, with the keys of tenants in "
		    "mete-ps(1): peak_bytes, refusals, limit_bytes and the others");
}

static void print_statuses(const char *verb)
{
	fputs(".SH EXIT STATUS\n", stdout);
	for (size_t i = 0; i < cli_statuses_size; i++)
		if (strcmp(cli_statuses[i].verb, verb) == 0)
			print_entry(cli_statuses[i].name, cli_statuses[i].meaning);
}

static void print_examples(const char *verb)
{
	fputs(".SH EXAMPLES\n", stdout);
	for (size_t i = 0; i < cli_examples_size; i++)
		if (strcmp(cli_examples[i].verb, verb) == 0)
			print_entry(cli_examples[i].name, cli_examples[i].meaning);
}

static void print_page_of(const struct cli_command *command)
{
	fputs(".TH METE\\-", stdout);
	for (const char *c = command->verb; *c; c++)
		putchar(toupper((unsigned char)*c));
	printf(" 1 \"\" \"mete " METE_VERSION "\" \"mete\"\n.SH NAME\nmete\\-%s \\- ",
	       command->verb);
	print_roff(command->summary);
	printf(".SH SYNOPSIS\n\\fBmete %s\\fR ", command->verb);
	print_roff(command->arguments);
	fputs(".SH DESCRIPTION\n", stdout);
	print_roff(command->description);
	fputs(".SH OPTIONS\n", stdout);
	for (const struct cli_option *option = NULL;
	     (option = cli_next_option(command->verb, option));) {
		print_option_name(option);
		print_roff(option->description);
	}
	fputs(".TP\n\\fB\\-h\\fR, \\fB\\-\\-help\\fR\nPrint a short description.\n", stdout);
	print_section("KEYS", command->verb, screen_keys, ARRAY_SIZE(screen_keys));
	print_section("COLUMNS", command->verb, columns, ARRAY_SIZE(columns));
	print_section("STATES", command->verb, states, ARRAY_SIZE(states));
	print_section("GATES", command->verb, gates, ARRAY_SIZE(gates));
	print_section("KINDS", command->verb, events, ARRAY_SIZE(events));
	if (strcmp(command->verb, "ps") == 0)
		print_keys();
	if (strcmp(command->verb, "run") == 0)
		print_report_keys();
	print_statuses(command->verb);
	print_section("ENVIRONMENT", command->verb, variables, ARRAY_SIZE(variables));
	print_section("FILES", command->verb, places, ARRAY_SIZE(places));
	print_examples(command->verb);
	fputs(".SH SEE ALSO\n\\fBmete\\fR(1), \\fBmeted\\fR(8)\n", stdout);
}

static void print_page_of_all(void)
{
	fputs(".TH METE 1 \"\" \"mete " METE_VERSION "\" \"mete\"\n.SH NAME\n"
	      "mete \\- share a GPU: measured portions of its memory and time\n"
	      ".SH SYNOPSIS\n\\fBmete\\fR VERB [OPTION]... [ARGUMENT]...\n.SH DESCRIPTION\n"
	      "Lets several unmodified CUDA programs share one GPU, each within its own memory "
	      "limit.\n"
	      ".SH VERBS\n",
	      stdout);
	for (size_t i = 0; i < cli_commands_size; i++) {
		printf(".TP\n\\fB%s\\fR\n", cli_commands[i].verb);
		print_roff(cli_commands[i].summary);
	}
	fputs(".SH AMOUNTS\nUnits of memory are powers of 1024, however they are written: 4G, 4GB, "
	      "4Gi "
	      "and 4GiB are the same, and so is 4294967296, a number of bytes. A part of a device "
	      "is "
	      "25% or 250/1000. A small m (256m) is refused: it is mebibytes to some and "
	      "thousandths "
	      "to others.\n",
	      stdout);
	print_section("ENVIRONMENT", "", variables, ARRAY_SIZE(variables));
	print_section("FILES", "", places, ARRAY_SIZE(places));
	fputs(".SH EXIT STATUS\n"
	      "0: done. 1: failed, with a sentence on standard error. 2: the command line cannot "
	      "be understood, or has a value that is valid on no machine: nothing was asked, and "
	      "nothing has changed. What this machine does not have or allow (a device, a "
	      "tenant, a file, so much memory) is 1, not 2. \\fBmete run\\fR: the program's own; "
	      "125 in the place of 1, and 126 or 127 where the program cannot be started.\n"
	      ".SH EXAMPLES\n",
	      stdout);
	for (size_t i = 0; i < cli_commands_size; i++)
		for (size_t k = 0; k < cli_examples_size; k++)
			if (strcmp(cli_examples[k].verb, cli_commands[i].verb) == 0) {
				print_entry(cli_examples[k].name, cli_examples[k].meaning);
				break;
			}
	fputs(".SH SEE ALSO\n\\fBmeted\\fR(8)", stdout);
	for (size_t i = 0; i < cli_commands_size; i++)
		printf(", \\fBmete\\-%s\\fR(1)", cli_commands[i].verb);
	fputc('\n', stdout);
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "completion") == 0)
		return completion_print(argv[2]);
	if (argc != 3 || strcmp(argv[1], "page") != 0)
		return 2;
	if (strcmp(argv[2], "mete") == 0) {
		print_page_of_all();
		return 0;
	}
	for (size_t i = 0; i < cli_commands_size; i++) {
		if (strcmp(cli_commands[i].verb, argv[2]) == 0) {
			print_page_of(&cli_commands[i]);
			return 0;
		}
	}
	return 2;
}
