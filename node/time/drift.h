/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the charged time with the driver's: see the top of drift.c. */
#pragma once

#include "node/daemon.h"

/* drift.c: the beginning and the end of a measurement; drift_ask() runs on the worker between
 * them. */
void drift_want(struct daemon *d);
void drift_ask(struct daemon *d);
void drift_seen(struct daemon *d);
void drift_row(const struct tenant_device *at, struct wire_tenant_row *ret_row);
