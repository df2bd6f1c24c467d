/* SPDX-License-Identifier: Apache-2.0 */
/* Folders that a former meted has left: see the top of leftover.c. */
#pragma once

#include "node/daemon.h"

/* leftover.c: removes the folders of tenants that neither live nor are absent. Call it only after
 * all are back. */
void leftover_remove(struct daemon *d);
