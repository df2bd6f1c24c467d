/* SPDX-License-Identifier: Apache-2.0 */
/* Viewers of the page and their rights, as the API server knows them. */
#pragma once

#include "plugin/plugin.h"

/* For struct plugin_entry, which says what they do. */
must_check int reviews_who(struct plugin *p, const char *token, const char *audience,
			   right_told *told, void *owner, struct right_asked **ret_asked);
must_check int reviews_may(struct plugin *p, const char *user, const struct right *right,
			   right_told *told, void *owner, struct right_asked **ret_asked);
void reviews_forget(struct right_asked *review);
