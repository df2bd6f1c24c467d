/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame of `mete`: one verb per row of cli/commands.def. A verb gets its parsed line and
 * returns the exit status of the program; it prints results on stdout, sentences on stderr.
 */
#pragma once

#include <stdbool.h>

#include "base/fault.h"

enum {
	CLI_OPTIONS = 32, /* most options of one verb */
	CLI_VERBS = 32,
	CLI_USAGE = 2, /* exit status: the command line cannot be understood */
};

struct cli_option {
	const char *verb;
	const char *name; /* cli_dashed() makes the form that is typed */
	char letter;	  /* 0: none */
	const char *argument;
	const char *description;
};

/* Of cli/pages.def: an exit status, or an example. */
struct cli_note {
	const char *verb, *name, *meaning;
};
extern const struct cli_note cli_statuses[], cli_examples[];
extern const size_t cli_statuses_size, cli_examples_size;

struct cli_call;

struct cli_command {
	const char *verb;
	const char *arguments;
	const char *summary;
	const char *description;
	int (*main)(const struct cli_call *call);
};

/* What was typed. */
struct cli_call {
	const struct cli_command *command;
	int argc; /* what follows the options */
	char **argv;
	const char *value[CLI_OPTIONS]; /* in the order of the verb's rows; NULL: not given */
};

extern const struct cli_command cli_commands[];
extern const size_t cli_commands_size;
extern const struct cli_option cli_options[];
extern const size_t cli_options_size;

/* What was given for an option ("" for a flag), or NULL. The name must be in the table. */
const char *cli_value(const struct cli_call *call, const char *option);

/* Prints "mete VERB: SENTENCE" on stderr and returns `status`. */
int cli_fail(const struct cli_call *call, int status, const struct fault *why);
int cli_complain(const struct cli_call *call, int status, const char *format, ...)
	printf_like(3, 4);

/* `mete --complete tenants|devices|nodes|contexts [WORD]...`, and `mete --complete keys|filters
 * VALUE [WORD]...` with what has been typed of a list, of the shell's completion: one name on each
 * line. The words are those of the command line up to the one that is completed, "mete" and
 * the verb among them. Its --context and --mete-namespace apply to nodes, and to tenants with
 * --node; no tenants are offered if one stands in the command line already. */
int cli_complete(char *const *words, int count);

void cli_print_help(FILE *out, const struct cli_command *command);
void cli_print_usage(FILE *out);

/* The typed form of "on_daemon_loss": "on-daemon-loss". */
struct cli_dashed {
	char text[32];
};
struct cli_dashed cli_dashed(const char *name);

/* Options of a verb, in the table's order: the next one after `previous` (NULL: the first). */
const struct cli_option *cli_next_option(const char *verb, const struct cli_option *previous);

#define COMMAND(verb, arguments, summary, description) int verb##_main(const struct cli_call *call);
#define OPTION(verb, name, letter, argument, description)
#include "cli/commands.def"
#undef COMMAND
#undef OPTION
