/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each tenant's part of a device's time, step by step, as far back as a wide screen shows it. Knows
 * no clock: each refresh of the rows is a step.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

enum {
	HISTORY_STEPS = 240,
	HISTORY_UNSAID = UINT16_MAX, /* the part was not known */
};

struct history_track {
	uint32_t tenant, device;
	uint32_t steps;		       /* in how many it has been seen */
	uint64_t seen;		       /* history.step when it was last seen */
	uint16_t milli[HISTORY_STEPS]; /* per mille of the time between two steps; a ring */
};

struct history {
	uint64_t step;
	struct history_track *track; /* in the order of the last step */
	size_t count, room;
	size_t expected; /* the likely place of the next one */
};

/* Begins a step; history_add() follows for each tenant, and then history_end(), which forgets the
 * others. */
void history_begin(struct history *history);
/* Without memory the value is dropped. */
void history_add(struct history *history, uint32_t tenant, uint32_t device, uint16_t milli);
void history_end(struct history *history);
void history_free(struct history *history);

/* NULL: it was not seen. Until the next history_begin(). */
const struct history_track *history_find(const struct history *history, uint32_t tenant,
					 uint32_t device);
/* `back`: 0 is the last step. HISTORY_UNSAID if the tenant was not there yet. */
uint16_t history_at(const struct history_track *track, uint32_t back);

static inline void history_free_owned(struct history *history)
{
	history_free(history);
}
