/* SPDX-License-Identifier: Apache-2.0 */
#include "node/devices/boards.h"

#include <string.h>

#include "node/daemon.h"
#include "node/devices/nvml.h"

enum {
	FRESH_MS = 900,
	LATE_MS = 1000,	 /* so long an answer is waited for */
	STALE_MS = 5000, /* older figures are not shown: the driver has stopped saying any */
};

static const uint64_t ms = 1000000;

static bool is_younger(const struct boards *b, uint64_t age_ms)
{
	return b->since_ns && loop_now_ns() - b->since_ns < age_ms * ms;
}

/* Runs on the worker, and only asks the driver. A device that MIG has taken says nothing. */
static void ask(struct loop_work *work)
{
	struct boards *b = container_of(work, struct boards, work);
	struct daemon *d = container_of(b, struct daemon, boards);

	for (uint32_t i = 0; i < b->devices; i++)
		b->asked[i] = nvml_board(d->nvml, i);
}

static void tell(struct boards *b)
{
	struct daemon *d = container_of(b, struct daemon, boards);
	void (*told)(void *owner) = b->told;

	b->told = NULL;
	if (told && !d->stopping)
		told(b->owner);
}

static void on_asked(struct loop_work *work)
{
	struct boards *b = container_of(work, struct boards, work);

	loop_disarm(&b->timer);
	memcpy(b->said, b->asked, b->devices * sizeof(b->said[0]));
	b->known = b->devices;
	b->since_ns = loop_now_ns();
	b->late = false;
	tell(b);
}

static void on_late(struct loop_timer *timer)
{
	struct boards *b = container_of(timer, struct boards, timer);

	b->late = true;
	tell(b);
}

bool boards_want(struct daemon *d, void (*told)(void *owner), void *owner)
{
	struct boards *b = &d->boards;

	if (d->stopping || is_younger(b, FRESH_MS))
		return false;
	if (!b->work.busy) {
		b->devices = d->devices;
		if (loop_work(&d->loop, &b->work, ask, on_asked) < 0)
			return false;
		loop_arm(&b->timer, LATE_MS * ms);
	}
	if (b->late || !told)
		return false;
	b->told = told;
	b->owner = owner;
	return true;
}

struct gpu_board boards_of(const struct daemon *d, uint32_t device)
{
	const struct boards *b = &d->boards;

	return device < b->known && is_younger(b, STALE_MS) ? b->said[device] : board_unsaid();
}

uint64_t boards_since_ns(const struct daemon *d)
{
	return d->boards.since_ns;
}

int boards_open(struct daemon *d)
{
	return loop_timer_init(&d->loop, &d->boards.timer, on_late);
}

void boards_close(struct daemon *d)
{
	loop_timer_close(&d->boards.timer, NULL);
}
