/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two pages that this process shares with meted, as its agent maps them: its own, and its
 * tenant's. Until the process has joined both are private pages of zeros.
 */
#pragma once

#include <stdbool.h>

#include "base/macros.h"
#include "wire/page.h"

/* Maps both pages and finds the tenant's devices in them; closes the descriptors. 0; -EINVAL: they
 * are invalid; this was reported and nothing has changed. */
must_check int pages_adopt(int own_fd, int tenant_fd);

/* The daemon has heard the inventory. `known`: it counts all memory of this process that is out. If
 * not, its gates are not followed, as they would open although memory is missing: that cannot come
 * back, and calls that need it fail. */
void pages_trust(bool known);
bool pages_are_forgotten(void);

/* Called by the agent: maps the new daemon's page as soon as its gates can be trusted. Returns true
 * if it still has to wait. */
bool pages_wait(void);

/* For the agent: the page of the daemon that is connected, also while it still has to wait. That
 * daemon waits for its gates to close, although they are not followed. */
const struct wire_tenant_page *pages_of_daemon(void);

/* The daemon is gone: from now on a private copy of its page has the state that on_daemon_loss
 * requires. */
void pages_lost(void);

/* In a child of fork(): pages of zeros again. Part of what join.c does with the whole guest. */
void pages_clear(void);
