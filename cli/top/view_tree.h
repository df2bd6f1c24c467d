/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of the view as a tree: each tenant below the one that it is within, and its processes
 * below it.
 */
#pragma once

#include "cli/top/view.h"

/* -ENOMEM. */
must_check int view_add(struct view *view, struct view_line line);

/* `member`: the tenants that are shown, sorted. A tenant whose outer one is not shown stands at the
 * left edge. */
must_check int view_add_tree(struct view *view, const struct model *model,
			     const struct model_tenant **member, size_t count);
