/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/completion.h"

static void put_dashed(const char *name)
{
	fputs("--", stdout);
	fputs(cli_dashed(name).text, stdout);
}

static void print_verbs(void)
{
	for (size_t i = 0; i < cli_commands_size; i++)
		printf("%s%s", i ? " " : "", cli_commands[i].verb);
}

static bool takes_value(const struct cli_option *option)
{
	return option->argument[0] != '\0';
}

/* Their names and letters, with a blank behind each. */
static void print_options_that(const struct cli_command *command,
			       bool (*fits)(const struct cli_option *))
{
	const struct cli_option *option = NULL;

	while ((option = cli_next_option(command->verb, option))) {
		if (!fits(option))
			continue;
		put_dashed(option->name);
		fputc(' ', stdout);
		if (option->letter)
			printf("-%c ", option->letter);
	}
}

/* Each verb's options, and which of them take a value. */
static void print_options_of(const struct cli_command *command)
{
	const struct cli_option *option = NULL;

	printf("\t%s)\n\t\toptions='", command->verb);
	while ((option = cli_next_option(command->verb, option))) {
		put_dashed(option->name);
		fputc(' ', stdout);
	}
	fputs("--help'\n\t\ttakes=' ", stdout);
	print_options_that(command, takes_value);
	fputs("'\n\t\tfiles=' ", stdout);
	print_options_that(command, completion_wants_file);
	printf("'\n\t\tfirst='%s' program=%s folder=%s ;;\n", completion_first(command).text,
	       strstr(command->arguments, "PROGRAM") ? "yes" : "",
	       strstr(command->arguments, "FOLDER") ? "yes" : "");
}

/* Names that only kubectl or meted knows, for the command line so far: `line` has its words,
 * separated by blanks. */
static void print_asked(const char *what)
{
	const char *between = "\t";

	for (size_t i = 0; i < cli_options_size; i++) {
		const char *asks = completion_asks(&cli_options[i]);

		if (!asks || strcmp(asks, what) != 0)
			continue;
		printf("%s%s:", between, cli_options[i].verb);
		put_dashed(cli_options[i].name);
		if (cli_options[i].letter)
			printf("|%s:-%c", cli_options[i].verb, cli_options[i].letter);
		between = "|";
	}
	printf(")\n\t\tnames=yes words=$(\"${COMP_WORDS[0]}\" --complete %s \"${line[@]}\" "
	       "2>/dev/null) ;;\n",
	       what);
}

/* The options whose values are lists. */
static void print_lists(void)
{
	fputs("_mete_lists() {\n\tcase $1 in\n", stdout);
	for (size_t i = 0; i < cli_options_size; i++) {
		const struct cli_option *option = &cli_options[i];

		if (!completion_list(option))
			continue;
		printf("\t%s:", option->verb);
		put_dashed(option->name);
		if (option->letter)
			printf("|%s:-%c", option->verb, option->letter);
		printf(") list=%s ;;\n", completion_list(option));
	}
	fputs("\tesac\n}\n\n", stdout);
}

/* The values of options that accept one of a few words. */
static void print_values(void)
{
	for (size_t i = 0; i < cli_options_size; i++) {
		const struct cli_option *option = &cli_options[i];
		struct completion_words words = completion_words(option);

		if (!words.text[0])
			continue;
		printf("\t%s:", option->verb);
		put_dashed(option->name);
		if (option->letter)
			printf("|%s:-%c", option->verb, option->letter);
		printf(") words='%s' ;;\n", words.text);
	}
	fputs("\trun:--device|run:-d|pick:--exclude|pick:-x)\n"
	      "\t\twords=$(\"${COMP_WORDS[0]}\" --complete devices 2>/dev/null) ;;\n",
	      stdout);
	print_asked("nodes");
	print_asked("contexts");
	print_asked("tenants");
}

/* The fields of a share, for `mete set`. */
static void print_fields(void)
{
	for (size_t i = 0; completion_fields[i]; i++) {
		struct completion_words words = completion_field(completion_fields[i]);

		if (words.text[0])
			printf("\tset:%s) words='%s' ;;\n", completion_fields[i], words.text);
	}
	fputs("\tesac\n}\n\n_mete_fields='", stdout);
	for (size_t i = 0; completion_fields[i]; i++)
		printf("%s= ", completion_fields[i]);
	fputs("'\n\n", stdout);
}

static const char completion[] =
	/* compgen -W would expand them as the shell does, and run commands that are part of a name.
	 */
	"# Offers names that others have chosen, one on each line.\n"
	"_mete_offer() {\n"
	"\tlocal name quoted begun=$cur before=\n"
	"\t# : and @ part words: readline replaces what is behind the last of them\n"
	"\tif [[ $last == *[:@]* ]]; then\n"
	"\t\tbegun=$last\n"
	"\t\t[[ $begun != --*=* ]] || begun=${begun#*=}\n"
	"\t\tbefore=$begun\n"
	"\t\t[[ $cur == +([:@]) ]] || before=${begun%\"$cur\"}\n"
	"\tfi\n"
	"\t[[ $cur == [\\'\\\"]* ]] || begun=${begun//\\\\/}\n"
	"\tbegun=${begun#[\\'\\\"]}\n"
	"\twhile IFS= read -r name; do\n"
	"\t\t[[ -n $name && $name == \"$begun\"* ]] || continue\n"
	"\t\tprintf -v quoted %q \"$name\"\n"
	"\t\t# within quotes only what needs none\n"
	"\t\t[[ $cur != [\\'\\\"]* || $quoted = \"$name\" ]] || continue\n"
	"\t\tCOMPREPLY+=(\"${quoted#\"$before\"}\")\n"
	"\tdone <<<\"$1\"\n"
	"}\n\n"
	"# Offers what a list may go on with: whole values, of which readline has the last part.\n"
	"_mete_offer_list() {\n"
	"\tlocal name quoted before\n"
	"\t[[ $cur != [:@]* ]] || cur=\n"
	"\tbefore=${value%\"$cur\"}\n"
	"\tcompopt -o nospace 2>/dev/null\n"
	"\twhile IFS= read -r name; do\n"
	"\t\t[[ -n $name && $name == \"$value\"* ]] || continue\n"
	"\t\tprintf -v quoted %q \"${name//,/}\"\n"
	"\t\t[[ $quoted != \"${name//,/}\" ]] || COMPREPLY+=(\"${name#\"$before\"}\")\n"
	"\tdone <<<\"$1\"\n"
	"}\n\n"
	"_mete() {\n"
	"\tlocal cur=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]} "
	"prev=${COMP_WORDS[COMP_CWORD-1]}\n"
	"\tlocal words= options= takes= files= first= program= folder= names= last= line=() "
	"list= option= value= given=0 i\n"
	"\tlocal typed=${COMP_LINE:0:COMP_POINT}\n"
	"\tCOMPREPLY=()\n"
	"\tif [ \"$COMP_CWORD\" = 1 ]; then\n"
	"\t\tCOMPREPLY=($(compgen -W \"$_mete_verbs help --help --version\" -- \"$cur\"))\n"
	"\t\treturn\n"
	"\tfi\n"
	"\tif [ \"$verb\" = help ]; then\n"
	"\t\t[ \"$COMP_CWORD\" != 2 ] || COMPREPLY=($(compgen -W \"$_mete_verbs\" -- \"$cur\"))\n"
	"\t\treturn\n"
	"\tfi\n"
	"\t# --class=x and class=x are three words each\n"
	"\tif [ \"$cur\" = = ]; then\n"
	"\t\tcur=\n"
	"\telif [ \"$prev\" = = ]; then\n"
	"\t\tprev=${COMP_WORDS[COMP_CWORD-2]}\n"
	"\tfi\n"
	"\t_mete_options \"$verb\"\n"
	"\tfor ((i = 2; i < COMP_CWORD; i++)); do\n"
	"\t\tcase ${COMP_WORDS[i]} in\n"
	"\t\t--) compopt -o default 2>/dev/null; return ;;\n"
	"\t\t[=:@]*) ((i++)) ;; # a:b is three words, too\n"
	"\t\t-*)\n"
	"\t\t\tif [[ $takes == *\" ${COMP_WORDS[i]} \"* ]]; then\n"
	"\t\t\t\t[ \"${COMP_WORDS[i+1]}\" != = ] || ((i++))\n"
	"\t\t\t\t((i++))\n"
	"\t\t\tfi ;;\n"
	"\t\t*) # the rest is the program's\n"
	"\t\t\t[ -z \"$program\" ] || { compopt -o default 2>/dev/null; return; }\n"
	"\t\t\t((given++)) ;;\n"
	"\t\tesac\n"
	"\tdone\n"
	"\tread -ra line <<<\"$typed\"\n"
	"\tif [[ ! $typed =~ (^|[[:blank:]])$ ]]; then\n"
	"\t\tlast=${line[${#line[@]}-1]}\n"
	"\t\tline=(\"${line[@]:0:${#line[@]}-1}\")\n"
	"\tfi\n"
	"\tvalue=$last option=${line[${#line[@]}-1]}\n"
	"\t[[ $last != --*=* ]] || option=${last%%=*} value=${last#*=}\n"
	"\t_mete_lists \"$verb:$option\"\n"
	"\tif [ -n \"$list\" ]; then\n"
	"\t\t_mete_offer_list \"$(\"${COMP_WORDS[0]}\" --complete \"$list\" \"$value\" "
	"\"${line[@]}\" 2>/dev/null)\"\n"
	"\t\treturn\n"
	"\tfi\n"
	"\tif [[ $last == *[:@]* ]]; then\n"
	"\t\t[[ $last == --*=* ]] && prev=${last%%=*} || prev=${line[${#line[@]}-1]}\n"
	"\t\t[[ $last == [-:@]* ]] || ((given--)) # its own beginning\n"
	"\tfi\n"
	"\t_mete_values \"$verb:$prev\"\n"
	"\tif [ -z \"$words\" ] && [[ $takes == *\" $prev \"* ]]; then\n"
	"\t\t[[ $files != *\" $prev \"* ]] || compopt -o default 2>/dev/null\n"
	"\t\treturn\n"
	"\tfi\n"
	"\tif [ -z \"$words\" ] && [[ $verb == @(set|suspend|resume|why) && $cur != -* ]]; then\n"
	"\t\tif [ \"$given\" = 0 ]; then\n"
	"\t\t\t_mete_offer \"$(\"${COMP_WORDS[0]}\" --complete tenants \"${line[@]}\" "
	"2>/dev/null)\"\n"
	"\t\t\treturn\n"
	"\t\tfi\n"
	"\t\t[ \"$verb\" = set ] || return\n"
	"\t\t[ \"${COMP_WORDS[COMP_CWORD]}\" != = ] && [ \"${COMP_WORDS[COMP_CWORD-1]}\" != = ] || "
	"return\n"
	"\t\twords=$_mete_fields\n"
	"\t\tcompopt -o nospace 2>/dev/null\n"
	"\telif [ -z \"$words\" ] && [[ $verb == @(cordon|uncordon|drain) && $cur != -* ]]; then\n"
	"\t\twords=$(\"${COMP_WORDS[0]}\" --complete devices 2>/dev/null)\n"
	"\telif [ -z \"$words\" ] && [[ -n $first && $given == 0 && $cur != -* ]]; then\n"
	"\t\twords=$first\n"
	"\telif [ -z \"$words\" ] && [[ $cur == -* ]]; then\n"
	"\t\twords=$options\n"
	"\telif [ -z \"$words\" ] && [ -n \"$program\" ]; then\n"
	"\t\tCOMPREPLY=($(compgen -c -- \"$cur\"))\n"
	"\t\tcompopt -o default 2>/dev/null\n"
	"\t\treturn\n"
	"\telif [ -z \"$words\" ]; then\n"
	"\t\twords=$options\n"
	"\t\t[ -z \"$folder\" ] || compopt -o default 2>/dev/null\n"
	"\tfi\n"
	"\tif [ -n \"$names\" ]; then\n"
	"\t\t_mete_offer \"$words\"\n"
	"\telse\n"
	"\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
	"\tfi\n"
	"}\n"
	"complete -F _mete mete\n";

void completion_bash(void)
{
	fputs("# Made from cli/commands.def and core/share/share.def\n_mete_verbs='", stdout);
	print_verbs();
	fputs("'\n\n_mete_options() {\n\tcase $1 in\n", stdout);
	for (size_t i = 0; i < cli_commands_size; i++)
		print_options_of(&cli_commands[i]);
	fputs("\tesac\n}\n\n_mete_values() {\n\tcase $1 in\n", stdout);
	print_values();
	print_fields();
	print_lists();
	fputs(completion, stdout);
}
