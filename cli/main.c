/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdarg.h>
#include <string.h>

#include "base/text.h"
#include "base/words.h"
#include "cli/cli.h"
#include "cli/relay.h"

int cli_fail(const struct cli_call *call, int status, const struct fault *why)
{
	struct fault said = *why;

	text_make_plain(said.text); /* it may quote what was typed, or a path */
	fprintf(stderr, "mete %s: %s\n", call->command->verb, said.text);
	return status;
}

int cli_complain(const struct cli_call *call, int status, const char *format, ...)
{
	struct fault why;
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why.text, sizeof(why.text), format, arguments);
	va_end(arguments);
	return cli_fail(call, status, &why);
}

const char *cli_value(const struct cli_call *call, const char *name)
{
	const struct cli_option *option = NULL;

	for (int i = 0; (option = cli_next_option(call->command->verb, option)); i++)
		if (strcmp(option->name, name) == 0)
			return call->value[i];
	abort(); /* a name that is not in the table: a bug that any run of the verb shows */
}

struct parser {
	struct option options[CLI_OPTIONS + 2];
	char letters[2 * CLI_OPTIONS + 8];
	struct cli_dashed names[CLI_OPTIONS];
	char row_of_letter[128];
};

/* getopt's tables from ours. '+' stops at the first argument, where the rest is a program's. */
static void parser_init(struct parser *parser, const struct cli_command *command)
{
	const struct cli_option *option = NULL;
	const char *verb = command->verb;
	bool program = strstr(command->arguments, "PROGRAM");
	char *letter = stpcpy(parser->letters, program ? "+:h" : ":h");
	int n = 0;

	for (; (option = cli_next_option(verb, option)) && n < CLI_OPTIONS; n++) {
		parser->names[n] = cli_dashed(option->name);
		parser->options[n] = (struct option){
			parser->names[n].text,
			option->argument[0] ? required_argument : no_argument,
			NULL,
			256 + n,
		};
		if (!option->letter)
			continue;
		parser->row_of_letter[(int)option->letter] = (char)n;
		*letter++ = option->letter;
		if (option->argument[0])
			*letter++ = ':';
	}
	*letter = '\0';
	parser->options[n] = (struct option){"help", no_argument, NULL, 'h'};
}

struct meant {
	char text[100];
};

/* "; did you mean '--memory'?", of --memroy or --memroy=4G; "" if no option is similar. */
static struct meant meant_option(const struct cli_call *call, const char *typed)
{
	const struct cli_option *option = NULL;
	const char *name[CLI_OPTIONS], *nearest;
	struct meant said = {""};
	char word[32];
	size_t n = 0;

	if (strncmp(typed, "--", 2) != 0)
		return said;
	while ((option = cli_next_option(call->command->verb, option)) != NULL && n < CLI_OPTIONS)
		name[n++] = option->name;
	snprintf(word, sizeof(word), "%.*s", (int)strcspn(typed + 2, "="), typed + 2);
	nearest = words_nearest(word, name, n);
	if (nearest)
		snprintf(said.text, sizeof(said.text), "; did you mean '--%s'?",
			 cli_dashed(nearest).text);
	return said;
}

/* What other tools call it, where no spelling leads there. */
static const char *as_elsewhere(const char *typed)
{
	static const struct {
		const char *typed, *ours;
	} words[] = {
		{"version", "--version"}, {"list", "ps"},     {"ls", "ps"},
		{"status", "ps"},	  {"exec", "run"},    {"pause", "suspend"},
		{"unpause", "resume"},	  {"logs", "events"}, {"explain", "why"},
		{"update", "set"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strcmp(words[i].typed, typed) == 0)
			return words[i].ours;
	return NULL;
}

static struct meant meant_verb(const char *typed)
{
	const char *name[CLI_VERBS], *nearest;
	struct meant said = {""};
	size_t n = 0;

	for (; n < cli_commands_size && n < CLI_VERBS; n++)
		name[n] = cli_commands[n].verb;
	nearest = as_elsewhere(typed);
	if (!nearest)
		nearest = words_nearest(typed, name, n);
	if (nearest)
		snprintf(said.text, sizeof(said.text), "; did you mean '%s'?", nearest);
	return said;
}

/* The option that getopt_long() rejected: a letter, perhaps among others, or a word. */
static int complain(const struct cli_call *call, const struct parser *parser, const char *word,
		    bool misses_value)
{
	char letter[3] = {'-', (char)optopt, '\0'};
	struct meant meant;

	if (misses_value)
		return cli_complain(call, CLI_USAGE, "option '%s' needs a value",
				    optopt < 256 ? letter : word);
	if (optopt >= 256)
		return cli_complain(call, CLI_USAGE, "option '--%s' takes no value",
				    parser->options[optopt - 256].name);
	meant = meant_option(call, word);
	return cli_complain(call, CLI_USAGE, "unknown option '%s'%s%s `mete %s --help` lists them",
			    optopt && optopt != 'h' ? letter : word, meant.text,
			    meant.text[0] ? "" : ";", call->command->verb);
}

/* 0, or the exit status + 1 with which to end. */
static int parse(struct cli_call *call, int argc, char **argv)
{
	struct parser parser = {0};
	int found;

	parser_init(&parser, call->command);
	opterr = 0;
	while ((found = getopt_long(argc, argv, parser.letters, parser.options, NULL)) != -1) {
		switch (found) {
		case 'h':
			cli_print_help(stdout, call->command);
			return 1;
		case ':':
		case '?':
			return 1 + complain(call, &parser, argv[optind - 1], found == ':');
		default:
			if (found < 256)
				found = 256 + parser.row_of_letter[found & 127];
			/* In `--memory -- ./train` getopt takes the dashes for the value. */
			if (optarg && strcmp(optarg, "--") == 0)
				return 1 + cli_complain(call, CLI_USAGE,
							"option '--%s' needs a value",
							parser.options[found - 256].name);
			call->value[found - 256] = optarg ? optarg : "";
		}
	}
	call->argc = argc - optind;
	call->argv = argv + optind;
	return 0;
}

static const struct cli_command *find(const char *verb)
{
	for (size_t i = 0; i < cli_commands_size; i++)
		if (strcmp(cli_commands[i].verb, verb) == 0)
			return &cli_commands[i];
	return NULL;
}

static int unknown(const char *verb)
{
	struct fault said;

	cli_print_usage(stderr);
	if (!*verb)
		return CLI_USAGE;
	best_effort(
		fault_set(&said, 0, "mete: unknown verb '%.60s'%s", verb, meant_verb(verb).text));
	text_make_plain(said.text);
	/* Printed last, so that it is seen without scrolling back. */
	fprintf(stderr, "\n%s\n", said.text);
	return CLI_USAGE;
}

/* `mete help`, `mete help VERB`, `mete help help` */
static int help(int argc, char **argv)
{
	bool itself = argc == 0 || strcmp(argv[0], "help") == 0 || strcmp(argv[0], "--help") == 0 ||
		      strcmp(argv[0], "-h") == 0;
	const struct cli_command *command = itself ? NULL : find(argv[0]);

	if (!itself && !command)
		return unknown(argv[0]);
	if (command)
		cli_print_help(stdout, command);
	else
		cli_print_usage(stdout);
	return 0;
}

/* The exit status, once what was printed has arrived. `verb`: " ps", or "". */
static int finish(const char *verb, int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	fprintf(stderr, "mete%s: its output cannot be written: %s\n", verb, strerror(errno));
	return status == 0 ? 1 : status;
}

int main(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "";
	struct cli_call call = {0};
	char name[32];
	int status;

	if (strcmp(verb, "--version") == 0) {
		puts("mete " METE_VERSION);
		return finish("", 0);
	}
	if (strcmp(verb, "--complete") == 0 && argc > 2)
		return cli_complete(argv + 2, argc - 2);
	if (strcmp(verb, "--relay") == 0 && argc == 2)
		return cli_relay();
	if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0 || strcmp(verb, "help") == 0)
		return finish("", help(argc - 2, argv + 2));
	call.command = find(verb);
	if (!call.command)
		return unknown(verb);
	status = parse(&call, argc - 1, argv + 1);
	status = status ? status - 1 : call.command->main(&call);
	snprintf(name, sizeof(name), " %s", call.command->verb);
	return finish(name, status);
}
