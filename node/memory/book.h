/* SPDX-License-Identifier: Apache-2.0 */
/* The books of memory: carries out what core/ledger/ledger.h decides, and keeps the figures of the
 * tenants' pages. */
#pragma once

#include "node/daemon.h"

must_check int book_open(struct daemon *d);
void book_close(struct daemon *d);
/* MIG has made this device, the next one. book_pump() follows. */
void book_device(struct daemon *d, uint32_t index);
/* Carries out the ledger's actions and publishes the new figures: changed figures of a tenant at
 * once, a device's room to all its tenants soon. Call it after every event. */
void book_pump(struct daemon *d);
/* The device's free bytes. */
uint64_t book_room(const struct daemon *d, uint32_t device);
/* Bytes that its guests were granted but do not use. */
uint64_t book_credit(const struct daemon *d, uint32_t device);
/* Updates the reports of all guests of a device, for display, at a limited rate. */
void book_glance(struct daemon *d, uint32_t device);
/* Reads what the guests' pages report as allocated. */
void book_refresh_guest(struct guest *g);
void book_refresh_all(struct daemon *d);
/* The memory that a tenant's processes held is not promised to others before they have stated
 * it. */
void book_hold(struct tenant *t);
/* If no guests are expected any more, asks are answered from now on. book_pump() follows. */
void book_release(struct tenant *t);
