/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

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

static void print_wrapped(FILE *out, const char *text, int indent)
{
	int column = indent;

	fprintf(out, "%*s", indent, "");
	while (*text) {
		int n = (int)strcspn(text, " \n");

		if (*text == '\n') { /* a paragraph */
			fprintf(out, "\n\n%*s", indent, "");
			column = indent;
			text++;
			continue;
		}
		if (column > indent && column + n > 88) {
			fprintf(out, "\n%*s", indent, "");
			column = indent;
		}
		fprintf(out, "%s%.*s", column > indent ? " " : "", n, text);
		column += n + 1;
		text += n + (text[n] == ' ');
	}
	fputc('\n', out);
}

void cli_print_help(FILE *out, const struct cli_command *command)
{
	fprintf(out, "Usage: mete %s %s\n\n", command->verb, command->arguments);
	print_wrapped(out, command->description, 0);
	fputs("\nOptions:\n", out);
	for (const struct cli_option *option = NULL;
	     (option = cli_next_option(command->verb, option));) {
		if (option->letter)
			fprintf(out, "  -%c, --", option->letter);
		else
			fputs("      --", out);
		fprintf(out, "%s%s%s\n", cli_dashed(option->name).text,
			option->argument[0] ? "=" : "", option->argument);
		print_wrapped(out, option->description, 10);
	}
	fputs("  -h, --help\n          print this\n\nExamples:\n", out);
	for (size_t i = 0; i < cli_examples_size; i++)
		if (strcmp(cli_examples[i].verb, command->verb) == 0)
			fprintf(out, "  %s\n          %s\n", cli_examples[i].name,
				cli_examples[i].meaning);
	fputs("\nExit status:\n", out);
	for (size_t i = 0; i < cli_statuses_size; i++)
		if (strcmp(cli_statuses[i].verb, command->verb) == 0)
			fprintf(out, "  %-8s  %s\n", cli_statuses[i].name, cli_statuses[i].meaning);
}

void cli_print_usage(FILE *out)
{
	fputs("Usage: mete VERB [OPTION]... [ARGUMENT]...\n\nVerbs:\n", out);
	for (size_t i = 0; i < cli_commands_size; i++)
		fprintf(out, "  %-10s %s\n", cli_commands[i].verb, cli_commands[i].summary);
	fputs("\n`mete help VERB` describes a verb; `mete --version` prints the version.\n", out);
}
