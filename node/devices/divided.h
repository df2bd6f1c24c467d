/* SPDX-License-Identifier: Apache-2.0 */
/* Notices that somebody has divided a GPU by MIG in another way: see the top of divided.c. */
#pragma once

#include "node/daemon.h"

must_check int divided_open(struct daemon *d);
void divided_close(struct daemon *d);
