/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects core/turns/alike.h to the rest: tells it each tenant's part of a device, by the driver's
 * samples, and makes its tenants take turns if it says so.
 */
#pragma once

#include "node/daemon.h"

void samples_open(struct daemon *d);
/* The tenant takes part on the device from now on, or no longer. */
void samples_sit(struct tenant_device *at, uint64_t now);
void samples_stand_up(struct tenant_device *at, uint64_t now);
/* Whether its guests must say when they are idle; and may have little under way, although the
 * device is open. */
bool samples_listens(const struct tenant_device *at);
bool samples_bounds(const struct tenant_device *at);
/* Carries out what was decided. Returns true if that changed anything for turns. */
bool samples_step(struct daemon *d, uint64_t now);
/* When to call samples_tick(). */
uint64_t samples_deadline(const struct daemon *d);
void samples_tick(struct daemon *d, uint64_t now);
/* A measurement has ended. */
void samples_seen(struct daemon *d);
