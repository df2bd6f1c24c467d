/* SPDX-License-Identifier: Apache-2.0 */
/* Guests' messages, and the answers to their asks. */
#pragma once

#include "node/daemon.h"

/* Asks the ledger. False: the guest was refused. It may have been answered by then. */
must_check bool words_ask(struct guest_device *at, const struct ledger_request *request);
void words_heard(struct guest *g, const struct wire_message *message);
/* "; with --oversize managed ...", for a sentence on what is larger than the device, where that is
 * a way out; or "". */
const char *words_oversize(const struct tenant *t);
/* The answers to its asks. */
void words_answer(struct guest *g, const struct ledger_action *action);
