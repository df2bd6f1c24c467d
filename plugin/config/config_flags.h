/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of NVIDIA's device plugin (v0.20): each option is a variable of the environment,
 * and goes before it. Pure.
 */
#pragma once

#include <stdbool.h>

#include "base/fault.h"

struct config_flags {
	/* Sets a variable, as setenv() does: 0, or -1. */
	int (*set)(const char *variable, const char *value, int overwrite);
	char *(*get)(const char *variable); /* as getenv() */
};

/* Takes the options among the words, up to "--". *ret_rest: the index of the first word after that,
 * or `count`. -EINVAL with a sentence. */
must_check int config_take_flags(const struct config_flags *flags, char *const *words, int count,
				 int *ret_rest, struct fault *why);

/* Each option without its dashes, and the variable that it stands for. turned: it needs no value.
 */
void config_each_flag(void (*each)(void *owner, const char *option, const char *variable,
				   bool turned),
		      void *owner);
