/* SPDX-License-Identifier: Apache-2.0 */
/* Fills in a tenant's time for `mete ps`. */
#pragma once

#include "node/daemon.h"

void schedule_row(struct tenant_device *at, struct wire_tenant_row *ret_row);
