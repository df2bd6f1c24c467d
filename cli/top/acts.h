/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `mete top` does to the selected tenant, after a confirmation.
 */
#pragma once

#include "cli/remote.h"
#include "cli/top/keys.h"
#include "cli/top/view.h"

enum { ACTS_SAID = 300 };

/* Whether the key is one of these. */
bool acts_is(enum keys_act act);

/* Asks on the terminal's last line, and does it; *ret_said is the outcome, or "". Processes on
 * another machine (remote->node) are not told to end. */
void acts_do(enum keys_act act, struct remote *remote, const struct view_line *line,
	     char ret_said[ACTS_SAID]);
