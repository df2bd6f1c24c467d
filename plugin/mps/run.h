/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a program to its end, with a text as its input, and keeps what it prints. Blocks: for worker
 * threads. One that does not end in time is killed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

enum {
	RUN_WORDS = 7,
	RUN_TEXT = 512,
	RUN_SETTINGS = 5,
	RUN_SECONDS = 10, /* as long as it may take */
};

struct run {
	/* In. */
	const char *words[RUN_WORDS + 1]; /* the program's path, and its arguments; then NULL */
	char settings[RUN_SETTINGS][RUN_TEXT]; /* of its environment, "NAME=VALUE", beside ours; "":
						  none */
	char input[RUN_TEXT];
	/* Out. */
	int status;	       /* its exit status; -errno: it could not be run; -ETIMEDOUT */
	char output[RUN_TEXT]; /* the beginning of its output and its errors */
};

void run(struct run *run);
