/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of a meted, from its admin socket. */
#pragma once

#include "cli/remote.h"
#include "view/ps_rows.h"

/* This machine's rows; if no meted runs, devices by NVML. */
must_check int ps_fetch(struct ps_rows *ret_rows, struct fault *why);
/* The node's rows; if remote->node is NULL, as ps_fetch(). */
must_check int ps_fetch_at(struct remote *remote, struct ps_rows *ret_rows, struct fault *why);
/* Rows from that connection; tenant 0: of all tenants, and devices. */
must_check int ps_fetch_rows(struct admin *admin, uint32_t tenant, struct ps_rows *rows,
			     struct fault *why);
