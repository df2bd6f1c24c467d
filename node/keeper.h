/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that keep a tenant while they live: the programs of `mete run`, which may be killed
 * before its program is a guest. Only who may use the admin socket says whom. Not written to the
 * journal: after a restart `mete run` says it again, and where it is gone, too, only guests keep
 * the tenant.
 */
#pragma once

#include "node/daemon.h"

/* Twice is once. -ESRCH, -ENOSPC, -ENOMEM: not kept. */
must_check int keeper_add(struct tenant *t, uint32_t pid, struct fault *why);

/* The tenant ends. */
void keeper_forget(struct tenant *t);
