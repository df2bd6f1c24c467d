/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that keep a tenant while they live: the programs of `mete run`, which itself may be
 * killed before its program is a guest. Only clients of the admin socket can add one. The journal
 * does not record them: after a restart `mete run` adds its program again, and if it is gone as
 * well, only guests keep the tenant.
 */
#pragma once

#include "node/daemon.h"

/* Adding it twice is harmless. -ESRCH, -ENOSPC, -ENOMEM: not added. */
must_check int keeper_add(struct tenant *t, uint32_t pid, struct fault *why);

/* The first of them that is alive; 0: none is. */
pid_t keeper_first(const struct tenant *t);

/* Sends each of them a signal; returns to how many. */
uint32_t keeper_signal(const struct tenant *t, int signal);
bool keeper_has(const struct tenant *t, pid_t pid);

/* The tenant ends. */
void keeper_forget(struct tenant *t);

/* The index of the first of `count` processes that keeps it; `count`: none does. */
uint32_t keeper_place(const struct tenant *t, const pid_t *ancestors, uint32_t count);
