/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GPU may be divided anew while meted runs (`nvidia-smi mig`, NVIDIA's mig-manager).
 * A part that is gone is unhealthy (health.c), and well again when it is made again. But one that
 * was not there when meted started is a device that it does not have: a meted that is a machine's
 * or a node's then restarts as it was started. Guests go on, and come back to it, as after any
 * restart.
 *
 * It waits until two looks in a row find the same: a division is made part by part. Where no GPU
 * can be divided, nothing is asked; a look asks for modes and names alone.
 */
#include "node/devices/divided.h"

#include "node/devices/nvml.h"

enum { EVERY_S = 2 };

static void run(struct loop_work *work)
{
	struct divided *v = container_of(work, struct divided, work);

	v->now = nvml_news(container_of(v, struct daemon, divided)->nvml);
}

static void on_finished(struct loop_work *work)
{
	struct divided *v = container_of(work, struct divided, work);
	struct daemon *d = container_of(v, struct daemon, divided);

	if (d->stopping)
		return;
	if (v->now && v->now == v->before) {
		log_info("daemon.again", "reason=\"GPUs are divided by MIG in another way now\"");
		d->missing.again = true;
		loop_stop(&d->loop);
		return;
	}
	v->before = v->now;
	loop_arm(&v->timer, EVERY_S * 1000000000ull);
}

static void on_due(struct loop_timer *timer)
{
	struct divided *v = container_of(timer, struct divided, timer);

	if (loop_work(&container_of(v, struct daemon, divided)->loop, &v->work, run, on_finished) <
	    0)
		loop_arm(&v->timer, EVERY_S * 1000000000ull);
}

int divided_open(struct daemon *d)
{
	struct divided *v = &d->divided;
	int r;

	if (!nvml_is_divisible(d->nvml) || !(d->options.system || d->options.kubernetes))
		return 0;
	r = loop_timer_init(&d->loop, &v->timer, on_due);
	if (r == 0)
		loop_arm(&v->timer, EVERY_S * 1000000000ull);
	return r;
}

void divided_close(struct daemon *d)
{
	loop_timer_close(&d->divided.timer, NULL);
}
