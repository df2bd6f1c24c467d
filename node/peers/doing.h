/* SPDX-License-Identifier: Apache-2.0 */
/* What a tenant is doing on a device: the facts for core/doing.h, from the daemon's books. */
#pragma once

#include "node/daemon.h"

/* The row has all its other figures. */
void doing_row(const struct tenant_device *at, struct wire_tenant_row *row);
