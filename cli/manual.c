/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a man page or the shell completion from cli/commands.def, at build time.
 * Usage: manual page VERB | manual page mete | manual completion
 */
#include <string.h>

#include "cli/cli.h"

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

static void print_page_of(const struct cli_command *command)
{
	printf(".TH METE\\-%s 1 \"\" \"mete " METE_VERSION "\" \"mete\"\n.SH NAME\nmete\\-%s \\- ",
	       command->verb, command->verb);
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
	fputs(".SH SEE ALSO\n\\fBmete\\fR(1), \\fBmeted\\fR(8)\n", stdout);
}

static void print_page_of_all(void)
{
	fputs(".TH METE 1 \"\" \"mete " METE_VERSION "\" \"mete\"\n.SH NAME\n"
	      "mete \\- share a GPU: measured portions of its memory\n"
	      ".SH SYNOPSIS\n\\fBmete\\fR VERB [OPTION]... [ARGUMENT]...\n.SH DESCRIPTION\n"
	      "Lets several unmodified CUDA programs share one GPU, each within its own memory "
	      "limit.\n"
	      ".SH VERBS\n",
	      stdout);
	for (size_t i = 0; i < cli_commands_size; i++) {
		printf(".TP\n\\fB%s\\fR\n", cli_commands[i].verb);
		print_roff(cli_commands[i].summary);
	}
	fputs(".SH ENVIRONMENT\n.TP\n\\fBMETE_DRIVER\\fR\n"
	      "The folder of the CUDA driver's libraries (libcuda.so.1, libnvidia\\-ml.so.1), "
	      "where the loader would find others.\n"
	      ".SH EXIT STATUS\n"
	      "0: done. 1: failed, with a sentence on standard error. 2: the command line cannot "
	      "be understood. \\fBmete run\\fR: the program's own; 125 where mete failed, 126 or "
	      "127 where the program cannot be started.\n"
	      ".SH SEE ALSO\n\\fBmeted\\fR(8)",
	      stdout);
	for (size_t i = 0; i < cli_commands_size; i++)
		printf(", \\fBmete\\-%s\\fR(1)", cli_commands[i].verb);
	fputc('\n', stdout);
}

static void print_completion(void)
{
	fputs("# bash completion for mete, made from cli/commands.def\n_mete() {\n"
	      "\tlocal word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} words=\n"
	      "\tif [ \"$COMP_CWORD\" = 1 ]; then\n\t\twords='",
	      stdout);
	for (size_t i = 0; i < cli_commands_size; i++)
		printf("%s ", cli_commands[i].verb);
	fputs("--help --version'\n\telse\n\t\tcase $verb in\n", stdout);
	for (size_t i = 0; i < cli_commands_size; i++) {
		printf("\t\t%s) words='", cli_commands[i].verb);
		for (const struct cli_option *option = NULL;
		     (option = cli_next_option(cli_commands[i].verb, option));) {
			fputs("--", stdout);
			for (const char *p = option->name; *p; p++)
				fputc(*p == '_' ? '-' : *p, stdout);
			fputc(' ', stdout);
		}
		fputs("--help' ;;\n", stdout);
	}
	fputs("\t\tesac\n\tfi\n\tCOMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n}\n"
	      "complete -o default -F _mete mete\n",
	      stdout);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "completion") == 0) {
		print_completion();
		return 0;
	}
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
