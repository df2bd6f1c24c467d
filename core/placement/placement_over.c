/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Promises beyond capacity. No decision makes them; the world does, when it changes under pods that
 * run. So each GPU and host remembers the known ones, by kind, and the audit finds all others.
 */
#include "core/placement/placement_machine.h"

/* Pods that hold the GPU. */
static int pods_on(const struct placement *p, const struct placement_host *host, int device)
{
	int pods = 0;

	for (int32_t at = host->first_pod; at >= 0; at = p->pods[at].next) {
		int32_t i = p->pods[at].out ? PLACEMENT_NONE : p->pods[at].first_charge;

		while (i >= 0 && p->charges[i].device != device)
			i = p->charges[i].next;
		pods += i >= 0;
	}
	return pods;
}

static bool too_many_instances(const struct placement *p, const struct placement_gpu *gpu)
{
	const struct placement_profiles *all = &p->geometry[gpu->is.geometry];

	for (int i = 0; gpu->is.geometry && i < all->size; i++)
		if (all->profile[i].most && gpu->mig_instances[i] > all->profile[i].most)
			return true;
	return false;
}

static uint8_t over_gpu(const struct placement *p, const struct placement_host *host, int device)
{
	const struct placement_gpu *gpu = &host->gpu[device];
	uint8_t over = 0;

	if (gpu->tenants == 0)
		return 0;
	if (gpu->is.slots && gpu->tenants > gpu->is.slots)
		over |= OVER_TENANTS;
	if (gpu->exclusive && pods_on(p, host, device) > 1)
		over |= OVER_ALONE;
	if (gpu->leftovers || gpu->overlap || too_many_instances(p, gpu))
		over |= OVER_MIG;
	for (int c = 0; c < PLACEMENT_CLASSES; c++) {
		if (placement_compute_room(p, gpu, (uint8_t)c) < 0)
			over |= OVER_COMPUTE;
		if (placement_memory_room(p, gpu, (uint8_t)c) < 0)
			over |= OVER_MEMORY;
	}
	return over;
}

static uint8_t over_host(const struct placement_host *host)
{
	return (placement_cpu_room(host) < 0 ? OVER_CPU : 0) |
	       (placement_host_room(host) < 0 ? OVER_HOST_MEMORY : 0);
}

void placement_find_over(const struct placement *p, struct placement_host *host)
{
	host->over = over_host(host);
	for (int i = 0; i < host->devices; i++) {
		host->gpu[i].over = over_gpu(p, host, i);
		host->over |= host->gpu[i].over ? OVER_GPU : 0;
	}
}

void placement_keep_over(const struct placement *p, struct placement_host *host)
{
	uint8_t known = host->over;

	if (!known)
		return;
	host->over = known & over_host(host);
	for (int i = 0; i < host->devices; i++) {
		if (host->gpu[i].over)
			host->gpu[i].over &= over_gpu(p, host, i);
		host->over |= host->gpu[i].over ? OVER_GPU : 0;
	}
}

bool placement_over_known(const struct placement *p, const struct placement_host *host)
{
	uint8_t over = over_host(host);

	for (int i = 0; i < host->devices; i++) {
		uint8_t here = over_gpu(p, host, i);

		if (here != host->gpu[i].over)
			return false;
		over |= here ? OVER_GPU : 0;
	}
	return over == host->over;
}
