/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measurements: memory according to the driver, charged time compared with the driver's, and
 * estimates of what a context takes.
 */
#pragma once

#include "node/daemon.h"

/* drift.c: the beginning and the end of a measurement; drift_ask() runs on the worker between
 * them. */
void drift_want(struct daemon *d);
void drift_ask(struct daemon *d);
void drift_seen(struct daemon *d);
void drift_row(const struct tenant_device *at, struct wire_tenant_row *ret_row);

/* measure.c */
must_check int measure_open(struct daemon *d);
void measure_close(struct daemon *d);
/* Tells the machine; measure_start() follows. */
void measure_say(struct guest_device *at, enum residual_verb verb, uint64_t bytes);
/* Its guest leaves. */
void measure_forget(struct guest_device *at);
/* Starts the wanted measurements on the worker, or after the one in progress. */
void measure_start(struct daemon *d);
/* The guest asks for this much. If that would be refused, what the last measurements left open
 * is measured again, because the asking guest is quiet. The answer waits for this, see
 * ledger_unsettled(). */
void measure_asker(struct guest_device *at, uint64_t bytes);
/* Measures it, and then answers RESIDUAL_CHECK `id`: has its tenant more than it may? */
void measure_check(struct guest_device *at, uint32_t id);
/* Measures all guests that have stated what they hold. admin_measured() follows, up to
 * RESIDUAL_ROUNDS times. */
void measure_all(struct daemon *d);
/* Whether figures that are being measured are worth waiting for. */
bool measure_under_way(const struct daemon *d);

/* Counts, or no longer counts, something of the tenant's that is being measured. */
void measure_unsettled(struct tenant_device *of, bool *counted, bool now);

/* A row of the driver's answer. The second function marks a process on the device as a guest. */
struct nvml_process *measure_row(struct daemon *d, uint32_t device, uint32_t row);
void measure_mark(struct daemon *d, uint32_t device, pid_t pid);

/* watch.c */
must_check int watch_open(struct daemon *d);
void watch_close(struct daemon *d);
/* One of the tenant's guests sent something or has changed: they are measured regularly for a
 * while. */
void watch_stirred(struct tenant *t);
/* The tenant asks for memory: the answer waits for a measurement, if the last one is too old. */
void watch_asker(struct guest_device *at);
/* This many measurements have ended. */
void watch_looked(struct daemon *d, uint64_t measurements);

/* prices.c */
must_check uint64_t prices_context(struct daemon *d, const struct guest_device *at);
/* The least that a context takes on a device with any driver: a smaller limit is useless. */
must_check uint64_t prices_least(const struct daemon *d, uint32_t device);
void prices_learn(struct daemon *d, const struct guest_device *at, uint64_t bytes);
