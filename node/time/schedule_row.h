/* SPDX-License-Identifier: Apache-2.0 */
/* What `mete ps` shows of a tenant's time. */
#pragma once

#include "node/daemon.h"

void schedule_row(struct tenant_device *at, struct wire_tenant_row *ret_row);
