/* SPDX-License-Identifier: Apache-2.0 */
/* Measures guests that send nothing from time to time: see the top of watch.c. */
#pragma once

#include "node/daemon.h"

must_check int watch_open(struct daemon *d);
void watch_close(struct daemon *d);
/* One of the tenant's guests sent something or has changed: they are measured regularly for a
 * while. */
void watch_stirred(struct tenant *t);
/* A look at the guest, of which nothing was reported, has ended: it stood still meanwhile, or not,
 * and its charge is another one, or not. */
void watch_looked_at(struct guest_device *at, bool exactly, bool changed);
/* The tenant asks for memory: the answer waits for a measurement, if the last one is too old. */
void watch_asker(struct guest_device *at);
/* This many measurements have ended. */
void watch_looked(struct daemon *d, uint64_t measurements);
