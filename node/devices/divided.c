/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU may be divided anew while meted runs (`nvidia-smi mig`, NVIDIA's mig-manager). A new device
 * gets the next index, and one that is gone keeps its own: a device's index is in pages, journals
 * and protocols, and means the same device for as long as meted runs. Tenants with a share of a
 * device that is gone keep it, as far as the driver lets them use it; no new tenant gets one. If
 * the device is made again, it is the device that it was.
 *
 * Where that is not enough, a meted that is a machine's or a node's restarts as it was started:
 * there are more devices than places, one was missing at the start and a tenant waits for it, or
 * the Kubernetes part cannot serve them with what it has (kubernetes_divided()). Guests go on, and
 * come back to it, as after any restart.
 *
 * It waits until two looks in a row find the same: a division is made part by part. Where no GPU
 * can be divided, nothing is asked; a look asks for modes and names alone.
 */
#include "node/devices/divided.h"

#include "node/devices/mark.h"
#include "node/devices/nvml.h"
#include "node/memory/book.h"
#include "node/memory/native.h"
#include "node/state/absent.h"
#include "node/upcalls.h"
#include "node/users/terms.h"
#include "node/users/user.h"

/* More often than health is looked at: a division takes two looks. */
static uint64_t pause_ns(const struct daemon *d)
{
	return d->options.look_ns * 2 / 5;
}

static void run(struct loop_work *work)
{
	struct divided *v = container_of(work, struct divided, work);
	struct nvml *nvml = container_of(v, struct daemon, divided)->nvml;

	v->now = nvml_news(nvml);
	v->r = v->sure || (v->now && v->now == v->before) ? nvml_look_again(nvml, &v->why) : 0;
}

void divided_found(struct daemon *d, uint32_t index)
{
	struct device *device = &d->device[index];

	device->info = nvml_device(d->nvml, index);
	device->reserve_bytes =
		d->options.reserve_bytes ? d->options.reserve_bytes : device->info->reserved_bytes;
	log_info("device.found",
		 "index=%u uuid=%s model=%s capacity_bytes=%llu "
		 "reserve_bytes=%llu",
		 index, device->info->uuid_text, log_text(device->info->model).text,
		 (unsigned long long)device->info->total_bytes,
		 (unsigned long long)device->reserve_bytes);
}

/* Logs which of the known devices are gone, or back. */
static void note_known(struct daemon *d, const bool was_gone[DAEMON_DEVICES])
{
	d->present = 0;
	for (uint32_t i = 0; i < d->devices; i++) {
		const struct nvml_device *info = d->device[i].info;

		d->present += !info->gone;
		if (info->gone == was_gone[i])
			continue;
		log_info(info->gone ? "device.gone" : "device.back", "index=%u uuid=%s tenants=%u",
			 i, info->uuid_text, d->device[i].registered);
		native_device(d, i);
	}
}

static int add(struct daemon *d, uint32_t index)
{
	divided_found(d, index);
	book_device(d, index);
	d->devices = index + 1;
	return user_device(d, index);
}

/* Not 0: only a restart helps. */
static int adopt(struct daemon *d, struct fault *why)
{
	bool was_gone[DAEMON_DEVICES] = {false};
	uint32_t former = d->devices;
	int r = 0;

	for (uint32_t i = 0; i < former; i++)
		was_gone[i] = d->device[i].info->gone;
	nvml_accept(d->nvml);
	for (uint32_t i = former; i < nvml_count(d->nvml); i++)
		if (absent_names(d, nvml_device(d->nvml, i)->uuid_text))
			return fault_set(why, -EAGAIN,
					 "device %s was missing, and somebody has a share of it, "
					 "or has cordoned or reserved it",
					 nvml_device(d->nvml, i)->uuid_text);
	for (uint32_t i = former; r == 0 && i < nvml_count(d->nvml); i++)
		r = add(d, i);
	if (r < 0)
		return fault_set(why, r, "the books are full");
	note_known(d, was_gone);
	if (d->options.system)
		terms_apply_all(d);
	mark_again(d);
	move_divided(d);
	book_pump(d);
	schedule_pump(d);
	return kubernetes_divided(d, former, why);
}

static void on_finished(struct loop_work *work)
{
	struct divided *v = container_of(work, struct divided, work);
	struct daemon *d = container_of(v, struct daemon, divided);
	bool same = v->sure || (v->now && v->now == v->before);

	if (d->stopping)
		return;
	/* A division has ended since this look began. */
	if (v->hurries) {
		v->before = 0;
		loop_arm(&v->timer, 0);
		return;
	}
	if (same && (v->r < 0 || adopt(d, &v->why) != 0)) {
		log_info("daemon.again",
			 "reason=\"GPUs are divided by MIG in another way now\" because=%s",
			 log_text(v->why.text).text);
		d->missing.again = true;
		loop_stop(&d->loop);
		return;
	}
	v->before = same ? 0 : v->now;
	loop_arm(&v->timer, pause_ns(d));
}

static void on_due(struct loop_timer *timer)
{
	struct divided *v = container_of(timer, struct divided, timer);
	struct daemon *d = container_of(v, struct daemon, divided);

	v->sure = v->hurries;
	v->hurries = false;
	if (loop_work(&d->loop, &v->work, run, on_finished) < 0) {
		v->hurries |= v->sure;
		loop_arm(&v->timer, pause_ns(d));
	}
}

bool divided_may_be(const struct daemon *d)
{
	return nvml_is_divisible(d->nvml) && (d->options.system || d->options.kubernetes);
}

void divided_now(struct daemon *d)
{
	struct divided *v = &d->divided;

	v->hurries = true;
	if (v->timer.open && !v->work.busy)
		loop_arm(&v->timer, 0);
}

int divided_open(struct daemon *d)
{
	struct divided *v = &d->divided;
	int r;

	if (!divided_may_be(d))
		return 0;
	r = loop_timer_init(&d->loop, &v->timer, on_due);
	if (r == 0)
		loop_arm(&v->timer, pause_ns(d));
	return r;
}

void divided_close(struct daemon *d)
{
	loop_timer_close(&d->divided.timer, NULL);
}
