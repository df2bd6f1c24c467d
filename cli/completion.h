/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a shell completes after `mete`, made from cli/commands.def and core/share/share.def at build
 * time.
 */
#pragma once

#include "cli/cli.h"

/* For that shell (bash, zsh or fish), on standard output. CLI_USAGE: there is no other. */
int completion_print(const char *shell);

void completion_bash(void);
void completion_zsh(void);
void completion_fish(void);

/* The words that may follow an option, with blanks between them: of "a|b|park:TIME", "a b park:".
 * "": any value, or none. */
struct completion_words {
	char text[200];
};
struct completion_words completion_words(const struct cli_option *option);

/* Those of which a verb's first argument is one ("apply assert export"); "": it is none of a few.
 */
struct completion_words completion_first(const struct cli_command *command);

/* The words that a field of a share may be, likewise. */
struct completion_words completion_field(const char *key);
/* The fields, in the table's order; NULL behind the last. */
extern const char *const completion_fields[];

/* The kind of an option's value. */
bool completion_wants_file(const struct cli_option *option);
bool completion_wants_device(const struct cli_option *option);
/* The argument with which `mete --complete` lists the possible values, before the line's words:
 * "nodes", "contexts", "tenants"; NULL: there is none. */
const char *completion_asks(const struct cli_option *option);
/* Likewise of a value that is a list, before what has been typed of it. */
const char *completion_list(const struct cli_option *option);
/* A verb's first argument is a tenant, which may be left out. */
bool completion_of_tenant(const struct cli_command *command);

/* The first clause of a description: "memory limit on the device". */
struct completion_words completion_about(const char *description);
