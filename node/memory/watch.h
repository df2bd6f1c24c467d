/* SPDX-License-Identifier: Apache-2.0 */
/* Measures guests that send nothing from time to time: see the top of watch.c. */
#pragma once

#include "node/daemon.h"

must_check int watch_open(struct daemon *d);
void watch_close(struct daemon *d);
/* One of the tenant's guests sent something or has changed: they are measured regularly for a
 * while. */
void watch_stirred(struct tenant *t);
/* A measurement of the guest has ended. `exactly`: it was a look, and the guest stood still
 * meanwhile. `changed`: it was a look, and the charge is another one. Neither: the driver failed,
 * or something was reported, too; the guest is looked at again, if it was to be. */
void watch_measured(struct guest_device *at, bool exactly, bool changed);
/* The tenant asks for memory: the answer waits for a measurement, if the last one is too old. */
void watch_asker(struct guest_device *at);
/* This many measurements have ended. */
void watch_looked(struct daemon *d, uint64_t measurements);
