/* SPDX-License-Identifier: Apache-2.0 */
/* The CLI's connections: accepts them. */
#pragma once

#include "node/daemon.h"

/* Whether there may be more connections to accept. */
bool admin_accept(struct daemon *d);
