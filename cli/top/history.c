/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top/history.h"

#include <stdlib.h>

void history_free(struct history *history)
{
	free(history->track);
}

void history_begin(struct history *history)
{
	history->step++;
	history->expected = 0;
}

/* Tenants usually come in the same order each time: the next one is tried first. */
static struct history_track *find(const struct history *history, uint32_t tenant, uint32_t device)
{
	for (size_t i = 0; i < history->count; i++) {
		size_t at = (history->expected + i) % history->count;
		struct history_track *track = &history->track[at];

		if (track->tenant == tenant && track->device == device)
			return track;
	}
	return NULL;
}

static struct history_track *make(struct history *history, uint32_t tenant, uint32_t device)
{
	size_t room = history->room ? 2 * history->room : 16;
	struct history_track *grown = history->track;

	if (history->count == history->room) {
		grown = reallocarray(history->track, room, sizeof(*grown));
		if (!grown)
			return NULL;
		history->track = grown;
		history->room = room;
	}
	grown += history->count++;
	*grown = (struct history_track){.tenant = tenant, .device = device};
	return grown;
}

void history_add(struct history *history, uint32_t tenant, uint32_t device, uint16_t milli)
{
	struct history_track *track = find(history, tenant, device);

	if (!track)
		track = make(history, tenant, device);
	if (!track)
		return;
	history->expected = (size_t)(track - history->track) + 1;
	track->milli[track->steps++ % HISTORY_STEPS] = milli;
	track->seen = history->step;
}

void history_end(struct history *history)
{
	size_t kept = 0;

	for (size_t i = 0; i < history->count; i++)
		if (history->track[i].seen == history->step)
			history->track[kept++] = history->track[i];
	history->count = kept;
	history->expected = 0;
}

const struct history_track *history_find(const struct history *history, uint32_t tenant,
					 uint32_t device)
{
	return find(history, tenant, device);
}

uint16_t history_at(const struct history_track *track, uint32_t back)
{
	if (!track || back >= track->steps || back >= HISTORY_STEPS)
		return HISTORY_UNSAID;
	return track->milli[(track->steps - 1 - back) % HISTORY_STEPS];
}
