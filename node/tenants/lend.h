/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that guests open of each other: see the top of lend.c. */
#pragma once

#include "node/daemon.h"

void lend_heard(struct guest *g, uint32_t id, const struct wire_lend *said);
void lend_borrow(struct guest *g, uint32_t id, const struct wire_borrow *said);
