/* SPDX-License-Identifier: Apache-2.0 */
/* What tenants owe for the time that they had is in the journal, for the next meted:
 * decisions/0216.
 */
#pragma once

#include "node/daemon.h"

/* A gate of it has closed, or it owes something else now: that is recorded if it owes much more or
 * less than the journal says. */
void owed_note(struct tenant_device *at);
/* We end: all is recorded, as from now on nobody closes a gate. */
void owed_end(struct daemon *d);
/* Of what its cap owes there another one owes a part from now on: 1/`parts`. */
void owed_pass_on(struct tenant_device *from, struct tenant_device *to, uint32_t parts);
