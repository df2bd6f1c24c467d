/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was had of a device's time, look by look, as far back as a wide screen shows it, by
 * each tenant. Knows no clock: a look is a step.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

enum {
	HISTORY_LOOKS = 240,
	HISTORY_UNSAID = UINT16_MAX, /* nobody could say how much */
};

struct history_track {
	uint32_t tenant, device;
	uint32_t looks;		       /* so often has it been seen */
	uint64_t seen;		       /* history.look of the last time */
	uint16_t milli[HISTORY_LOOKS]; /* per mille of the time between two looks; a ring */
};

struct history {
	uint64_t look;
	struct history_track *track; /* in the order in which they were last seen */
	size_t count, room;
	size_t expected; /* where the next one is likely to be */
};

/* A look begins; history_add() follows for each that is there, and history_end(), which forgets the
 * others. */
void history_begin(struct history *history);
/* Without memory it is not kept. */
void history_add(struct history *history, uint32_t tenant, uint32_t device, uint16_t milli);
void history_end(struct history *history);
void history_free(struct history *history);

/* NULL: it was not seen. Until the next history_begin(). */
const struct history_track *history_find(const struct history *history, uint32_t tenant,
					 uint32_t device);
/* `back`: 0 is the last look. HISTORY_UNSAID where it was not there yet. */
uint16_t history_at(const struct history_track *track, uint32_t back);

static inline void history_free_owned(struct history *history)
{
	history_free(history);
}
