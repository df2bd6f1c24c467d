/* SPDX-License-Identifier: Apache-2.0 */
/* What `mete replay --time` and `--memory` have in common: where results go. */
#pragma once

#include "base/fault.h"
#include "cli/cli.h"

/* FOLDER/NAME.json and FOLDER/NAME.svg; the folder is made. */
struct replay_output {
	const char *name; /* borrowed */
	FILE *json, *svg; /* owned */
};

must_check int replay_output_open(const char *folder, const char *name,
				  struct replay_output *ret_output, struct fault *why);
/* After all was written: -EIO, a part of it was not. */
must_check int replay_output_check(const struct replay_output *output, struct fault *why);
void replay_output_close(struct replay_output *output);
static inline void replay_output_close_owned(struct replay_output *output)
{
	replay_output_close(output);
}
