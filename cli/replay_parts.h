/* SPDX-License-Identifier: Apache-2.0 */
/* What `mete replay --time` and `--memory` have in common: the tenants, and where results go. */
#pragma once

#include "base/fault.h"
#include "cli/cli.h"

/* The tenants that are named: structs of one kind, in which a name is. */
struct replay_tenants {
	void *loads; /* owned: `size` of them */
	uint32_t size, most;
	size_t load_bytes, name_at, name_bytes;
};

/* Appends `count` copies of it; who has no name of its own is numbered. -EINVAL: too many. */
must_check int replay_tenants_add(struct replay_tenants *all, const void *load, uint32_t count,
				  struct fault *why);

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
