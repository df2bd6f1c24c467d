/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/completion.h"

#include <string.h>

#include "core/share/share.h"

const char *const completion_fields[] = {
#define SHARE(key, kind, normally, accepted) #key,
#include "core/share/share.def"
#undef SHARE
	NULL,
};

int completion_print(const char *shell)
{
	static const struct {
		const char *shell;
		void (*print)(void);
	} shells[] = {
		{"bash", completion_bash},
		{"zsh", completion_zsh},
		{"fish", completion_fish},
	};

	for (size_t i = 0; i < ARRAY_SIZE(shells); i++) {
		if (strcmp(shells[i].shell, shell) != 0)
			continue;
		shells[i].print();
		return 0;
	}
	return CLI_USAGE;
}

static const char small[] = "abcdefghijklmnopqrstuvwxyz-";

struct completion_words completion_first(const struct cli_command *command)
{
	struct completion_words words = {""};
	size_t size = strcspn(command->arguments, " ");

	if (size >= sizeof(words.text) || !strchr(small, command->arguments[0]) ||
	    command->arguments[0] == '-' || !memchr(command->arguments, '|', size))
		return words;
	for (size_t i = 0; i < size; i++)
		words.text[i] = command->arguments[i] == '|' ? ' ' : command->arguments[i];
	return words;
}

struct completion_words completion_words(const struct cli_option *option)
{
	struct completion_words words = {""};
	const char *at = option->argument;
	size_t n = 0;

	/* One word that is meant as it stands has no capitals. */
	if (strstr(at, "...") || (!strchr(at, '|') && at[strspn(at, small)]))
		return words;
	for (; *at && n + 1 < sizeof(words.text); at++) {
		words.text[n++] = *at == '|' ? ' ' : *at;
		if (*at == ':') /* any value may follow */
			at += strcspn(at + 1, "|");
	}
	return words;
}

struct completion_words completion_field(const char *key)
{
	/* The fields that are no option of `mete run`. */
	if (strcmp(key, "strict") == 0)
		return (struct completion_words){"yes no"};
	if (strcmp(key, "unannounced") == 0)
		return (struct completion_words){"report kill"};
	for (size_t i = 0; i < cli_options_size; i++)
		if (strcmp(cli_options[i].verb, "run") == 0 &&
		    strcmp(cli_options[i].name, key) == 0)
			return completion_words(&cli_options[i]);
	return (struct completion_words){""};
}

bool completion_wants_file(const struct cli_option *option)
{
	return strcmp(option->argument, "FILE") == 0 || strcmp(option->argument, "FOLDER") == 0;
}

bool completion_of_tenant(const struct cli_command *command)
{
	static const char options[] = "[OPTION]... ";
	const char *first = command->arguments;

	if (strncmp(first, options, strlen(options)) == 0)
		first += strlen(options);
	first += *first == '[';
	return strncmp(first, "TENANT", 6) == 0;
}

bool completion_wants_device(const struct cli_option *option)
{
	return strcmp(option->name, "device") == 0 || strcmp(option->name, "exclude") == 0;
}

const char *completion_asks(const struct cli_option *option)
{
	if (strcmp(option->name, "node") == 0)
		return "nodes";
	if (strcmp(option->name, "tenant") == 0)
		return "tenants";
	return strcmp(option->name, "context") == 0 ? "contexts" : NULL;
}

const char *completion_list(const struct cli_option *option)
{
	if (strcmp(option->name, "query") == 0)
		return "keys";
	return strcmp(option->name, "filter") == 0 ? "filters" : NULL;
}

struct completion_words completion_about(const char *description)
{
	static const char *const ends[] = {";", ": ", " (", ". ", "\n"};
	size_t size = strlen(description);
	struct completion_words said;

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		const char *end = strstr(description, ends[i]);

		if (end && (size_t)(end - description) < size)
			size = (size_t)(end - description);
	}
	snprintf(said.text, sizeof(said.text), "%.*s", (int)size, description);
	return said;
}
