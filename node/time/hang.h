/* SPDX-License-Identifier: Apache-2.0 */
/* Handles a tenant that does not do as it was told. */
#pragma once

#include "node/daemon.h"

/* Logs the event. */
void hang_log(const struct tenant_device *at, const char *event);
void hang_kill(struct tenant *t);
/* Its guests do not move memory as they were told. */
void hang_stuck(struct tenant_device *at);
