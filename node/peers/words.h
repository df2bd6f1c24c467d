/* SPDX-License-Identifier: Apache-2.0 */
/* Guests' messages, and the answers to their asks. */
#pragma once

#include "node/daemon.h"

void words_heard(struct guest *g, const struct wire_message *message);
