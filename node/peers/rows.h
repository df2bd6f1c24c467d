/* SPDX-License-Identifier: Apache-2.0 */
/* Figures for display. */
#pragma once

#include "node/daemon.h"

/* rows.c: the displayed figures of a device, and of a tenant on one of its devices. Call
 * book_refresh_all() first. */
void rows_device(struct daemon *d, uint32_t index, struct wire_device_row *ret_row);
void rows_tenant(struct tenant *t, uint32_t device, struct wire_tenant_row *ret_row);
/* A guest on one of its tenant's devices. */
void rows_guest(struct guest *g, uint32_t device, struct wire_guest_row *ret_row);
/* Problems that callers should know of, each a text line. */
void rows_trouble(const struct daemon *d, wire_text *ret_text);
