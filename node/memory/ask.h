/* SPDX-License-Identifier: Apache-2.0 */
/* A guest's ask for memory, on its way to the ledger. */
#pragma once

#include "node/daemon.h"

/* Asks the ledger. False: the guest was refused. It may have been answered by then. */
must_check bool ask_ledger(struct guest_device *at, const struct ledger_request *request);
/* "; with --oversize managed ...", for a sentence on what is larger than the device, where that is
 * a way out; or "". */
const char *ask_oversize_hint(const struct tenant *t);
/* It stated no limit, or all of the device. */
bool ask_has_no_limit(const struct tenant *t);
