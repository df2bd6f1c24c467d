/* SPDX-License-Identifier: Apache-2.0 */
#include "node/time/samples.h"

#include "node/daemon.h"
#include "node/devices/nvml.h"
#include "node/memory/measure.h"
#include "node/time/schedule_now.h"
#include "node/upcalls.h"

enum {
	SAME_US = 50000, /* samples of one period end within so much; periods are longer */
	PERCENT_MILLI = 10,
};

void samples_open(struct daemon *d)
{
	for (uint32_t i = 0; i < d->places; i++)
		alike_init(&d->device[i].alike);
}

static struct alike *alike_of(const struct tenant_device *at)
{
	return &at->tenant->daemon->device[at->index].alike;
}

void samples_sit(struct tenant_device *at, uint64_t now)
{
	alike_join(alike_of(at), &at->alike, now);
}

void samples_stand_up(struct tenant_device *at, uint64_t now)
{
	alike_leave(&at->alike, now);
}

bool samples_listens(const struct tenant_device *at)
{
	return alike_listens(alike_of(at));
}

bool samples_bounds(const struct tenant_device *at)
{
	return alike_bounds(alike_of(at));
}

/* ---- what is decided ------------------------------------------------------------------------- */

/* A trial is no news. */
static void log_change(struct device *device, uint32_t index)
{
	bool unfair = alike_governs(&device->alike) || device->alike.state == ALIKE_TRIED;

	if (device->logged_unfair == unfair)
		return;
	device->logged_unfair = unfair;
	log_info(unfair ? "device.unfair" : "device.fair", "device=%u tenants=%u", index,
		 device->turns.tenants);
}

static void tell_listeners(struct device *device, uint64_t now)
{
	device->shown_listens = alike_listens(&device->alike);
	list_for_each(link, &device->tenants)
		schedule_listen(list_entry(link, struct tenant_device, link), now);
}

bool samples_step(struct daemon *d, uint64_t now)
{
	bool changed = false;

	for (uint32_t i = 0; i < d->devices; i++) {
		struct device *device = &d->device[i];

		alike_apply(&device->alike, turns_alike(&device->turns), now);
		log_change(device, i);
		if (device->shown_listens != alike_listens(&device->alike))
			tell_listeners(device, now);
		if (device->turns.unfair == alike_governs(&device->alike))
			continue;
		turns_govern(&device->turns, alike_governs(&device->alike), now);
		changed = true;
	}
	return changed;
}

/* ---- looks ----------------------------------------------------------------------------------- */

uint64_t samples_deadline(const struct daemon *d)
{
	uint64_t first = UINT64_MAX;

	for (uint32_t i = 0; i < d->devices; i++)
		if (alike_deadline(&d->device[i].alike) < first)
			first = alike_deadline(&d->device[i].alike);
	return first;
}

void samples_tick(struct daemon *d, uint64_t now)
{
	for (uint32_t i = 0; i < d->devices; i++) {
		struct alike *a = &d->device[i].alike;
		bool slept = alike_sleeps(a);

		alike_tick(a, now);
		if (!slept && alike_sleeps(a))
			log_debug("device.unused", "device=%u", i);
	}
	measure_start(d);
}

static uint64_t newest_us(const struct device_busy *busy)
{
	uint64_t newest = 0;

	for (uint32_t i = 0; i < busy->count; i++)
		if (busy->rows[i].at_us > newest)
			newest = busy->rows[i].at_us;
	return newest;
}

/* A process without a row as new as that computed nothing then: its row is of another time. */
static uint32_t had_milli(const struct device_busy *busy, pid_t pid, uint64_t since_us)
{
	uint32_t most = 0, count;
	const struct nvml_busy *rows = nvml_busy_of(busy->rows, busy->count, (uint32_t)pid, &count);

	for (uint32_t i = 0; i < count; i++)
		if (rows[i].at_us >= since_us && rows[i].percent > most)
			most = rows[i].percent;
	return most * PERCENT_MILLI;
}

static void see(struct tenant_device *at, const struct device_busy *busy, uint64_t since_us)
{
	uint32_t milli = 0;

	if (!at->seated)
		return;
	list_for_each(link, &at->tenant->guests) milli +=
		had_milli(busy, list_entry(link, struct guest, link)->pid, since_us);
	alike_saw(&at->alike, milli);
}

/* The driver's samples have wall-clock timestamps, by which they are only compared with the time of
 * the question. */
static uint64_t turns_time(const struct daemon *d, const struct device_busy *busy, uint64_t at_us)
{
	uint64_t ago_ns = busy->asked_us > at_us ? (busy->asked_us - at_us) * 1000 : 0;

	return ago_ns < busy->asked_ns ? (busy->asked_ns - ago_ns) / d->clock_dilation : 0;
}

static void look_at(struct daemon *d, struct device *device, uint64_t now)
{
	const struct device_busy *busy = &device->busy;
	uint64_t newest = newest_us(busy), same = (uint64_t)SAME_US * d->clock_dilation;

	if (!busy->known) {
		alike_blind(&device->alike, now);
		return;
	}
	list_for_each(link, &device->tenants) see(list_entry(link, struct tenant_device, link),
						  busy, newest > same ? newest - same : 0);
	alike_looked(&device->alike, newest ? turns_time(d, busy, newest) : 0, now);
}

void samples_seen(struct daemon *d)
{
	uint64_t now = schedule_now(d);
	bool any = false;

	for (uint32_t i = 0; i < d->devices; i++) {
		if (!d->device[i].busy.judged)
			continue;
		look_at(d, &d->device[i], now);
		any = true;
	}
	if (any)
		schedule_pump(d);
}
