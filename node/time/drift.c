/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the time that a tenant was charged with the time that its processes had kernels on the
 * device, according to the driver. This is done with each measurement of memory, if there are
 * turns. The result is only displayed. The worker's question also serves samples.c.
 */
#include "node/time/drift.h"

#include <time.h>

#include "node/daemon.h"
#include "node/devices/nvml.h"
#include "node/time/schedule_now.h"

enum {
	WINDOW_US = 1000000,
	PERCENT_MILLI = 10,
	NS_MILLI = 1000000, /* a thousandth of a second */
	MILLI = 1000,
};

/* The driver's samples have wall-clock timestamps. */
static uint64_t wall_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000;
}

void drift_ask(struct daemon *d)
{
	for (uint32_t i = 0; i < d->places; i++) {
		struct device_busy *busy = &d->device[i].busy;

		busy->known = false;
		if (!busy->wanted)
			continue;
		busy->asked_us = wall_us();
		busy->asked_ns = loop_now_ns();
		busy->known = nvml_busy(d->nvml, i,
					busy->asked_us - (uint64_t)WINDOW_US * d->clock_dilation,
					busy->rows, DAEMON_BUSY, &busy->count) == 0;
	}
}

void drift_want(struct daemon *d)
{
	for (uint32_t i = 0; i < d->devices; i++) {
		struct device *device = &d->device[i];

		device->busy.judged = device->alike.asks;
		device->busy.wanted = device->turns.governed || device->alike.asks;
	}
}

/* The mean of a process's samples. */
static uint32_t busy_of(const struct device_busy *busy, pid_t pid)
{
	uint32_t sum = 0, count;
	const struct nvml_busy *rows = nvml_busy_of(busy->rows, busy->count, (uint32_t)pid, &count);

	for (uint32_t i = 0; i < count; i++)
		sum += rows[i].percent * PERCENT_MILLI;
	return count ? sum / count : 0;
}

static void look_at(struct tenant_device *at, const struct device_busy *busy)
{
	uint64_t now = schedule_now(at->tenant->daemon);

	at->busy_known = at->seated && busy->known;
	if (!at->busy_known)
		return;
	at->busy_milli = 0;
	list_for_each(link, &at->tenant->guests) at->busy_milli +=
		busy_of(busy, list_entry(link, struct guest, link)->pid);
	turns_settle(&at->seat, now);
	at->busy_charged_milli =
		(uint32_t)(turns_rate_1s(&turns_rates_of(&at->seat)->charged, now) / NS_MILLI);
}

void drift_seen(struct daemon *d)
{
	for (uint32_t i = 0; i < d->devices; i++) {
		if (!d->device[i].busy.wanted)
			continue;
		list_for_each(link, &d->device[i].tenants)
			look_at(list_entry(link, struct tenant_device, link), &d->device[i].busy);
	}
}

void drift_row(const struct tenant_device *at, struct wire_tenant_row *ret_row)
{
	if (!at->busy_known || !at->seated || !at->seat.device->governed)
		return;
	/* The value plus one; 0 means unknown. */
	ret_row->busy = (at->busy_milli < MILLI ? at->busy_milli : MILLI) + 1;
	ret_row->busy_charged = at->busy_charged_milli + 1;
}
