/* SPDX-License-Identifier: Apache-2.0 */
/* What `mete ps` shows of a tenant's time. */
#pragma once

#include "node/daemon.h"

/* What `mete ps` shows of its time. */
void schedule_row(struct tenant_device *at, struct wire_tenant_row *ret_row);
