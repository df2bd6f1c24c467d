/* SPDX-License-Identifier: Apache-2.0 */
/* Builds edits; for plugin/inject/inject*.c only. */
#pragma once

#include "plugin/inject/inject.h"

/* Texts are copied. 0; -ENOMEM; -E2BIG: there are too many of them. */
must_check int edits_mount(struct inject_edits *edits, const char *from, const char *to,
			   bool writable);
must_check int edits_node(struct inject_edits *edits, const char *from, const char *to);
must_check int edits_env(struct inject_edits *edits, const char *name, const char *value);
must_check int edits_text(char **field, const char *text);

/* The sentence for such an error. */
int edits_fault(int error, struct fault *why);

/* The container's: with its tenant's folder and its devices. */
must_check int edits_slot(struct inject_edits *edits, const struct inject_slot *slot);
must_check int edits_copy(const struct inject_edits *edits, struct inject_edits **ret_edits);
