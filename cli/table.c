/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

/* The man-page generator is linked with the table, but without the verbs' functions. */
#ifdef CLI_TABLE_ONLY
#define MAIN(verb) NULL
#else
#define MAIN(verb) verb##_main
#endif

const struct cli_command cli_commands[] = {
#define COMMAND(verb, arguments, summary, description)                                             \
	{#verb, arguments, summary, description, MAIN(verb)},
#define OPTION(verb, name, letter, argument, description)
#include "cli/commands.def"
#undef COMMAND
#undef OPTION
};
const size_t cli_commands_size = ARRAY_SIZE(cli_commands);

const struct cli_option cli_options[] = {
#define COMMAND(verb, arguments, summary, description)
#define OPTION(verb, name, letter, argument, description)                                          \
	{#verb, #name, letter, argument, description},
#include "cli/commands.def"
#undef COMMAND
#undef OPTION
};
const size_t cli_options_size = ARRAY_SIZE(cli_options);

const struct cli_note cli_examples[] = {
#define EXAMPLE(verb, command, meaning) {#verb, command, meaning},
#define STATUS(...)
#define COLUMN(...)
#define VARIABLE(...)
#define PLACE(...)
#include "cli/pages.def"
#undef EXAMPLE
#undef STATUS
#define EXAMPLE(...)
};
const size_t cli_examples_size = ARRAY_SIZE(cli_examples);

const struct cli_note cli_statuses[] = {
#define STATUS(verb, status, meaning) {#verb, status, meaning},
#include "cli/pages.def"
#undef EXAMPLE
#undef STATUS
#undef COLUMN
#undef VARIABLE
#undef PLACE
};
const size_t cli_statuses_size = ARRAY_SIZE(cli_statuses);
