/* SPDX-License-Identifier: Apache-2.0 */
/* What `mete replay --time` and `--memory` have in common: the tenants, and where results go. */
#pragma once

#include <stddef.h>

#include "base/fault.h"
#include "cli/cli.h"

/* The tenants of a replay: an array of structs of one kind, of which one member is a name. */
struct replay_tenants {
	void *loads; /* owned: `size` of them */
	uint32_t size, most;
	size_t load_bytes, name_at, name_bytes;
	int (*parse)(const char *text, void *ret_load, uint32_t *ret_count, struct fault *why);
	const char *example; /* for the sentence that asks for tenants */
};

/* The members about `kind`, a struct with a `name`. */
#define REPLAY_KIND(kind)                                                                          \
	.load_bytes = sizeof(struct kind), .name_at = offsetof(struct kind, name),                 \
	.name_bytes = sizeof(((struct kind *)0)->name)

/* Appends the tenants that the text describes; those without a name of their own are numbered.
 * -EINVAL: not understood, or too many. */
must_check int replay_tenants_add(struct replay_tenants *all, const char *text, struct fault *why);

/* Appends those of the verb's arguments. -EINVAL also if there are none at all, without --pods. */
must_check int replay_tenants_read(struct replay_tenants *all, const struct cli_call *call,
				   struct fault *why);

/* FOLDER/NAME.json and FOLDER/NAME.svg; the folder is made. */
struct replay_output {
	const char *name; /* borrowed */
	FILE *json, *svg; /* owned */
};

must_check int replay_output_open(const char *folder, const char *name,
				  struct replay_output *ret_output, struct fault *why);
/* To be called after all was written. -EIO: a part of it was not written. */
must_check int replay_output_check(const struct replay_output *output, struct fault *why);
void replay_output_close(struct replay_output *output);
static inline void replay_output_close_owned(struct replay_output *output)
{
	replay_output_close(output);
}
