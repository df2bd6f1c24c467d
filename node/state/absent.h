/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tenants of the journal whose devices are not all there: a GPU that is missing when meted starts.
 * Nobody can join them, and nothing is counted for them. Their records and folders are kept, so
 * that a later meted, which finds the devices again, brings them back as they were.
 *
 * They are given up when the one who keeps them says so (absent_end()), or when the grace period is
 * over, nobody has kept them, and none of their processes lives.
 */
#pragma once

#include "node/daemon.h"
#include "base/record.h"

/* Keeps a tenant's record. -ENOSPC: there are too many; -ENOMEM. */
must_check int absent_take(struct daemon *d, uint32_t id, const char *record);
/* A further record of such a tenant; without effect if there is none of that id. Id 0
 * is for records of no tenant: reservations of missing devices. */
void absent_add(struct daemon *d, uint32_t id, const char *record);

bool absent_has(const struct daemon *d, uint32_t id);
bool absent_any(const struct daemon *d);
/* Does one of the records, a tenant's or not, name the device? */
bool absent_names(const struct daemon *d, const char *uuid);

/* Somebody wants it to stay until absent_end(). -ESRCH: there is none of that id. */
must_check int absent_keep(struct daemon *d, uint32_t id, char *ret_folder, size_t size);
/* Gives it up, with its folder; it need not exist. */
void absent_end(struct daemon *d, uint32_t id);

/* All records, for the journal that is being rewritten. */
void absent_write(const struct daemon *d, struct record *all);

/* The grace period is over. */
void absent_settle(struct daemon *d);
void absent_close(struct daemon *d);
