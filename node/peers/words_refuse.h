/* SPDX-License-Identifier: Apache-2.0 */
/* Why an ask for device memory was refused, as one sentence with the figures, to the guest. */
#pragma once

#include "node/daemon.h"

/* `device`: the tenant's; `action`: LEDGER_REFUSE. */
void words_refuse(struct guest *g, uint32_t device, const struct ledger_action *action);
