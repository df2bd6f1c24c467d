/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Kubernetes node whose driver or GPUs are not there (yet). If its file asks for this, meted
 * stays and looks again. Meanwhile it opens nothing, not even the journal. When there is a GPU,
 * meted restarts as it was started.
 */
#include "node/missing.h"

#include "node/daemon.h"
#include "node/devices/nvml.h"
#include "node/devices/nvml_inside.h"
#include "node/kubernetes.h"

enum { MOST_S = 30 };

bool missing_is(const struct nvml *nvml)
{
	return !nvml_count(nvml) && !nvml_unparted(nvml);
}

static void on_due(struct loop_timer *timer)
{
	struct daemon *d = container_of(timer, struct daemon, missing.timer);
	struct nvml *nvml = NULL;
	struct fault why;
	bool found = nvml_open(d->options.driver, &nvml, &why) == 0 && !missing_is(nvml);

	nvml_close(nvml);
	if (found) {
		log_info("daemon.again", "reason=\"there are GPUs now\"");
		d->missing.again = true;
		loop_stop(&d->loop);
		return;
	}
	d->missing.wait_s = d->missing.wait_s < MOST_S / 2 ? 2 * d->missing.wait_s : MOST_S;
	loop_arm(timer, d->missing.wait_s * 1000000000ull);
}

int missing_open(struct daemon *d, struct fault *why)
{
	int r = loop_timer_init(&d->loop, &d->missing.timer, on_due);

	if (r < 0)
		return fault_set(why, r, "no timer");
	r = kubernetes_open(d, &d->kubernetes, why);
	if (r < 0)
		return r;
	d->missing.wait_s = 1;
	loop_arm(&d->missing.timer, d->missing.wait_s * 1000000000ull);
	return 0;
}

void missing_close(struct daemon *d)
{
	loop_timer_close(&d->missing.timer, NULL);
	free(take(d->missing.why));
}
