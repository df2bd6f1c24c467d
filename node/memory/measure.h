/* SPDX-License-Identifier: Apache-2.0 */
/* Begins measurements of guests' memory by the driver. measured.c handles their ends. */
#pragma once

#include "node/daemon.h"

must_check int measure_open(struct daemon *d);
void measure_close(struct daemon *d);
/* Tells the machine; measure_start() follows. */
void measure_tell(struct guest_device *at, enum residual_verb verb, uint64_t bytes);
/* Its guest leaves. */
void measure_forget(struct guest_device *at);
/* Starts the wanted measurements on the worker, or after the one in progress. */
void measure_start(struct daemon *d);
/* The guest asks for this much. If the ledger would refuse that, guests whose last measurements
 * left something open are measured again, because the asking guest is quiet. The answer waits for
 * this, see ledger_unsettled(). */
void measure_asker(struct guest_device *at, uint64_t bytes);
/* Guests whose last measurements left something open are to be measured again. measure_start()
 * follows. */
void measure_reopen(struct daemon *d);
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

/* For measured.c. */
/* Tells the ledger whether figures of it are being measured. */
void measure_show_flux(struct tenant_device *of);
/* `what` must not make a guest leave. */
void measure_each(struct daemon *d, void (*what)(struct guest_device *at));
/* Soon after a guest has changed, then less and less often while it keeps changing; never while
 * nothing changes. */
void measure_arm_again(struct daemon *d);
/* The figures are there: tells the machines of the guests that were measured. */
void measure_end_running(struct daemon *d);
