/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of this machine's meted, from its admin socket. */
#pragma once

#include "cli/admin.h"
#include "view/ps_rows.h"

must_check int ps_fetch(struct ps_rows *ret_rows, struct fault *why);
/* From that connection; tenant 0: all, and devices. */
must_check int ps_fetch_rows(struct admin *admin, uint32_t tenant, struct ps_rows *rows,
			     struct fault *why);
