/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/wrap.h"
#include "cli/cli.h"

const struct cli_option *cli_next_option(const char *verb, const struct cli_option *previous)
{
	const struct cli_option *option = previous ? previous + 1 : cli_options;

	for (; option < cli_options + cli_options_size; option++)
		if (strcmp(option->verb, verb) == 0)
			return option;
	return NULL;
}

struct cli_dashed cli_dashed(const char *name)
{
	struct cli_dashed dashed;
	size_t n = 0;

	for (; name[n] && n + 1 < sizeof(dashed.text); n++)
		dashed.text[n] = name[n] == '_' ? '-' : name[n];
	dashed.text[n] = '\0';
	return dashed;
}

/* Of what stands on the line before. */
static void print_below(FILE *out, const char *text)
{
	fputs("          ", out);
	wrap_print(out, text, 10, 10);
}

void cli_print_help(FILE *out, const struct cli_command *command)
{
	fprintf(out, "Usage: mete %s %s\n\n", command->verb, command->arguments);
	wrap_print(out, command->description, 0, 0);
	fputs("\nOptions:\n", out);
	for (const struct cli_option *option = NULL;
	     (option = cli_next_option(command->verb, option));) {
		if (option->letter)
			fprintf(out, "  -%c, --", option->letter);
		else
			fputs("      --", out);
		fprintf(out, "%s%s%s\n", cli_dashed(option->name).text,
			option->argument[0] ? "=" : "", option->argument);
		print_below(out, option->description);
	}
	fputs("  -h, --help\n          print this\n\nExamples:\n", out);
	for (size_t i = 0; i < cli_examples_size; i++) {
		if (strcmp(cli_examples[i].verb, command->verb) != 0)
			continue;
		fprintf(out, "  %s\n", cli_examples[i].name);
		print_below(out, cli_examples[i].meaning);
	}
	fputs("\nExit status:\n", out);
	for (size_t i = 0; i < cli_statuses_size; i++) {
		if (strcmp(cli_statuses[i].verb, command->verb) != 0)
			continue;
		fprintf(out, "  %-8s  ", cli_statuses[i].name);
		wrap_print(out, cli_statuses[i].meaning, 12, 12);
	}
}

void cli_print_usage(FILE *out)
{
	fputs("Usage: mete VERB [OPTION]... [ARGUMENT]...\n\nVerbs:\n", out);
	for (size_t i = 0; i < cli_commands_size; i++) {
		fprintf(out, "  %-10s ", cli_commands[i].verb);
		wrap_print(out, cli_commands[i].summary, 13, 13);
	}
	fputs("\n`mete help VERB` describes a verb; `mete --version` prints the version.\n", out);
}
