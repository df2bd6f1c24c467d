/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/completion.h"

/* Between single quotes, within the brackets of a specification. */
static void put_quoted(const char *text)
{
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", stdout);
		else if (strchr("[]:\\", *text))
			printf("\\%c", *text);
		else
			fputc(*text, stdout);
	}
}

/* Its possible values: ":AMOUNT:ACTION". */
static void put_value(const struct cli_option *option)
{
	struct completion_words words = completion_words(option);

	if (!option->argument[0])
		return;
	fputc(':', stdout);
	put_quoted(option->argument);
	fputc(':', stdout);
	if (words.text[0])
		printf("(%s)", words.text);
	else if (completion_wants_file(option))
		fputs("_files", stdout);
	else if (completion_wants_device(option))
		fputs("_mete_devices", stdout);
	else if (completion_asks(option))
		printf("_mete_%s", completion_asks(option));
	else if (completion_list(option))
		printf("_mete_list %s", completion_list(option));
	else
		fputc(' ', stdout);
}

static void put_option(const struct cli_option *option)
{
	const char *name = cli_dashed(option->name).text;
	const char *values = option->argument[0] ? "=" : "";

	fputs(" \\\n\t\t\t'", stdout);
	if (option->letter)
		printf("(-%c --%s)'{-%c%s,--%s%s}'", option->letter, name, option->letter,
		       option->argument[0] ? "+" : "", name, values);
	else
		printf("--%s%s", name, values);
	fputc('[', stdout);
	put_quoted(completion_about(option->description).text);
	fputc(']', stdout);
	put_value(option);
	fputc('\'', stdout);
}

/* The arguments after the options. */
static void put_arguments(const struct cli_command *command)
{
	struct completion_words first = completion_first(command);

	if (first.text[0])
		printf(" \\\n\t\t\t'1:what:(%s)'", first.text);
	else if (strstr(command->arguments, "PROGRAM"))
		fputs(" \\\n\t\t\t'(-)1:program:_command_names -e' '*::argument:_normal'", stdout);
	else if (strstr(command->arguments, "KEY=VALUE"))
		fputs(" \\\n\t\t\t'1:tenant:_mete_tenants' '*:field:_mete_fields'", stdout);
	else if (completion_of_tenant(command))
		fputs(" \\\n\t\t\t'1:tenant:_mete_tenants'", stdout);
	else if (strstr(command->arguments, "DEVICE"))
		fputs(" \\\n\t\t\t'1:device:_mete_devices'", stdout);
	else if (strstr(command->arguments, "FOLDER"))
		fputs(" \\\n\t\t\t'*:folder:_files'", stdout);
}

static void put_verb(const struct cli_command *command)
{
	const struct cli_option *option = NULL;

	printf("\t%s)\n\t\t_arguments -s -S '(-h --help)'{-h,--help}'[print a short description]'",
	       command->verb);
	while ((option = cli_next_option(command->verb, option)) != NULL)
		put_option(option);
	put_arguments(command);
	fputs(" ;;\n", stdout);
}

static void put_fields(void)
{
	fputs("_mete_fields() {\n\tlocal -a fields\n\tcase $PREFIX in\n", stdout);
	for (size_t i = 0; completion_fields[i]; i++) {
		struct completion_words words = completion_field(completion_fields[i]);

		if (words.text[0])
			printf("\t%s=*) compset -P '*='; compadd -- %s; return ;;\n",
			       completion_fields[i], words.text);
	}
	fputs("\t*=*) return ;;\n\tesac\n\tfields=(", stdout);
	for (size_t i = 0; completion_fields[i]; i++)
		printf("%s%s", i ? " " : "", completion_fields[i]);
	fputs(")\n\tcompadd -S = -- $fields\n}\n\n", stdout);
}

void completion_zsh(void)
{
	fputs("#compdef mete\n# Made from cli/commands.def and core/share/share.def\n\n"
	      "_mete_tenants() {\n\tcompadd -- ${(f)\"$($_mete_program --complete tenants "
	      "\"${_mete_line[@]}\" 2>/dev/null)\"}\n}\n\n"
	      "_mete_devices() {\n\tcompadd -- ${(f)\"$($_mete_program --complete devices "
	      "2>/dev/null)\"}\n}\n\n"
	      /* Names that only kubectl knows, for the command line so far. */
	      "_mete_nodes() {\n\tcompadd -- ${(f)\"$($_mete_program --complete nodes "
	      "\"${_mete_line[@]}\" 2>/dev/null)\"}\n}\n\n"
	      /* What a list may go on with: more may follow, so no blank does. $argv[-1] is the
	       * last word, as _arguments puts options of compadd before it. */
	      "_mete_list() {\n\tcompadd -S '' -- ${(f)\"$($_mete_program --complete $argv[-1] "
	      "\"${(Q)PREFIX}\" \"${_mete_line[@]}\" 2>/dev/null)\"}\n}\n\n"
	      "_mete_contexts() {\n\tcompadd -- ${(f)\"$($_mete_program --complete contexts "
	      "2>/dev/null)\"}\n}\n\n",
	      stdout);
	put_fields();
	fputs("_mete() {\n\tlocal _mete_program=$words[1]\n"
	      "\tlocal -a verbs _mete_line=(\"${(@Q)words[1,CURRENT-1]}\")\n"
	      "\tif (( CURRENT == 2 )); then\n\t\tverbs=(\n",
	      stdout);
	for (size_t i = 0; i < cli_commands_size; i++) {
		printf("\t\t\t'%s:", cli_commands[i].verb);
		put_quoted(cli_commands[i].summary);
		fputs("'\n", stdout);
	}
	fputs("\t\t\t'help:describe a verb')\n\t\t_describe -t verbs verb verbs\n\t\treturn\n\tfi\n"
	      "\tlocal verb=$words[2]\n\tshift words\n\t(( CURRENT-- ))\n\tcase $verb in\n",
	      stdout);
	for (size_t i = 0; i < cli_commands_size; i++)
		put_verb(&cli_commands[i]);
	fputs("\thelp)\n\t\t_arguments '1:verb:(", stdout);
	for (size_t i = 0; i < cli_commands_size; i++)
		printf("%s%s", i ? " " : "", cli_commands[i].verb);
	fputs(")' ;;\n\tesac\n}\n\n_mete \"$@\"\n", stdout);
}
