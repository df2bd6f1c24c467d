/* SPDX-License-Identifier: Apache-2.0 */
/* The answers to DEVICE_CORDON and TENANT_END: `mete cordon` and `mete drain`. */
#pragma once

#include "wire/wire.h"

struct admin;

void admin_cordon(struct admin *a, uint32_t id, const struct wire_device_cordon *said);
void admin_end(struct admin *a, uint32_t id, const struct wire_tenant_end *said);
