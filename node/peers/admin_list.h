/* SPDX-License-Identifier: Apache-2.0 */
/* The CLI's connections: lists of devices, tenants and guests. */
#pragma once

#include "node/daemon.h"

struct admin;

/* The answer to LIST: now, or when its figures have been measured. */
void admin_list(struct admin *a, uint32_t id, const struct wire_list *said);
void admin_stop_listing(struct admin *a);
/* A measurement has ended, or takes too long: answers whose figures are there. */
void admin_list_measured(struct daemon *d);
