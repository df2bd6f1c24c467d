/* SPDX-License-Identifier: Apache-2.0 */
/* Publishes a tenant's figures on its page. */
#pragma once

#include "node/daemon.h"

/* Publishes the figures of one of its devices; tenant_show_share() publishes the rest of its
 * share. */
void tenant_show(struct tenant *t, uint32_t device);
/* Of these figures only those that the device's other tenants change; `credit`: book_credit(). */
void tenant_show_room(struct tenant_device *at, uint64_t credit);
void tenant_show_share(struct tenant *t);
/* Whether a person has to let it go on, whichever reasons its gates have besides. */
void tenant_show_stands(struct tenant *t);
