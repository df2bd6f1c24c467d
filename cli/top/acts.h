/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `mete top` does to the selected tenant, after it has asked.
 */
#pragma once

#include "cli/remote.h"
#include "cli/top/keys.h"
#include "cli/top/view.h"

enum { ACTS_SAID = 300 };

/* Whether the key is one of these. */
bool acts_is(enum keys_act act);

/* Asks for what it needs on the terminal's last line, and does it; *ret_said is what came of it, or
 * "". On another machine (remote->node) processes are not told to end. */
void acts_do(enum keys_act act, struct remote *remote, const struct view_line *line,
	     char ret_said[ACTS_SAID]);
