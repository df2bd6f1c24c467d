/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/completion.h"

#define FOR_VERB "complete -c mete -n '__mete_verb %s'"

static void put_quoted(const char *text)
{
	fputc('\'', stdout);
	for (; *text; text++)
		printf("%s%c", *text == '\'' || *text == '\\' ? "\\" : "", *text);
	fputc('\'', stdout);
}

static void put_option(const struct cli_command *command, const struct cli_option *option)
{
	struct completion_words words = completion_words(option);

	printf(FOR_VERB " -l %s", command->verb, cli_dashed(option->name).text);
	if (option->letter)
		printf(" -s %c", option->letter);
	if (completion_wants_file(option))
		fputs(" -r -F", stdout);
	else if (option->argument[0])
		fputs(" -x", stdout);
	if (words.text[0])
		printf(" -a '%s'", words.text);
	else if (completion_wants_device(option))
		fputs(" -a '(mete --complete devices 2>/dev/null)'", stdout);
	else if (completion_asks(option))
		printf(" -a '(mete --complete %s (commandline -opc) 2>/dev/null)'",
		       completion_asks(option));
	else if (completion_list(option))
		printf(" -a '(mete --complete %s \"$(commandline -ct)\" (commandline -opc) "
		       "2>/dev/null)'",
		       completion_list(option));
	fputs(" -d ", stdout);
	put_quoted(completion_about(option->description).text);
	fputc('\n', stdout);
}

static void put_fields(const struct cli_command *command)
{
	for (size_t i = 0; completion_fields[i]; i++) {
		struct completion_words words = completion_field(completion_fields[i]);
		char *rest = words.text, *one;

		printf(FOR_VERB " -a '%s='\n", command->verb, completion_fields[i]);
		while ((one = strsep(&rest, " ")) != NULL)
			if (*one)
				printf(FOR_VERB " -a '%s=%s'\n", command->verb,
				       completion_fields[i], one);
	}
}

static void put_arguments(const struct cli_command *command)
{
	struct completion_words first = completion_first(command);

	if (first.text[0])
		printf(FOR_VERB " -a '%s'\n", command->verb, first.text);
	if (strstr(command->arguments, "PROGRAM"))
		printf(FOR_VERB " -x -a '(__fish_complete_subcommand --fcs-skip=2)'\n",
		       command->verb);
	if (completion_of_tenant(command))
		printf(FOR_VERB " -a '(mete --complete tenants (commandline -opc) 2>/dev/null)'\n",
		       command->verb);
	if (strstr(command->arguments, "DEVICE"))
		printf(FOR_VERB " -a '(mete --complete devices 2>/dev/null)'\n", command->verb);
	if (strstr(command->arguments, "KEY=VALUE"))
		put_fields(command);
	if (strstr(command->arguments, "FOLDER"))
		printf(FOR_VERB " -F\n", command->verb);
}

void completion_fish(void)
{
	/* fish's own question sees verbs among a program's words, too. */
	fputs("# Made from cli/commands.def and core/share/share.def\n"
	      "function __mete_verb\n"
	      "\tset -l words (commandline -opc)\n"
	      "\ttest (count $words) -gt 1; and test $words[2] = $argv[1]\n"
	      "end\n\n"
	      "complete -c mete -f\n",
	      stdout);
	for (size_t i = 0; i < cli_commands_size; i++) {
		const struct cli_command *command = &cli_commands[i];
		const struct cli_option *option = NULL;

		printf("complete -c mete -n __fish_use_subcommand -a %s -d ", command->verb);
		put_quoted(command->summary);
		fputc('\n', stdout);
		printf(FOR_VERB " -l help -s h -d 'print a short description'\n", command->verb);
		while ((option = cli_next_option(command->verb, option)) != NULL)
			put_option(command, option);
		put_arguments(command);
	}
	fputs("complete -c mete -n __fish_use_subcommand -a help -d 'describe a verb'\n", stdout);
	printf(FOR_VERB " -a '", "help");
	for (size_t i = 0; i < cli_commands_size; i++)
		printf("%s%s", i ? " " : "", cli_commands[i].verb);
	puts("'");
}
