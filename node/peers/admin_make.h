/* SPDX-License-Identifier: Apache-2.0 */
/* The CLI's connections: creates tenants. */
#pragma once

#include "node/daemon.h"

struct admin;

/* The answer to TENANT_NEW. */
void admin_make(struct admin *a, uint32_t id, const struct wire_tenant_new *said);
