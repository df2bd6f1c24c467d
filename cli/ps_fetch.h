/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a meted, from its admin socket. */
#pragma once

#include "cli/remote.h"
#include "view/ps_rows.h"

/* This machine's; where none runs, what NVML says. */
must_check int ps_fetch(struct ps_rows *ret_rows, struct fault *why);
/* That node's; with remote->node NULL as ps_fetch(). */
must_check int ps_fetch_at(struct remote *remote, struct ps_rows *ret_rows, struct fault *why);
/* From that connection; tenant 0: all, and devices. */
must_check int ps_fetch_rows(struct admin *admin, uint32_t tenant, struct ps_rows *rows,
			     struct fault *why);
