/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node at a glance: bounds of what it has left, so small that ten thousand nodes are searched in
 * the processor's cache. The node refuses each request that they refuse; a request that they let
 * through is tested in full.
 */
#include "core/placement/placement_machine.h"

static const int64_t mib = 1 << 20;

static int64_t greater(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t within(int64_t value, int64_t most)
{
	return value < 0 ? 0 : value < most ? value : most;
}

/* The most that any class may be promised of the GPU. */
static void best_rooms(const struct placement *p, const struct placement_gpu *gpu,
		       int64_t *ret_compute, int64_t *ret_memory)
{
	uint8_t classes = p->plain ? 1 : PLACEMENT_CLASSES;

	*ret_compute = *ret_memory = 0;
	for (uint8_t class = 0; class < classes; class ++) {
		*ret_compute = greater(*ret_compute, placement_compute_room(p, gpu, class));
		*ret_memory = greater(*ret_memory, placement_memory_room(p, gpu, class));
	}
}

static void glance(const struct placement *p, const struct placement_host *host,
		   struct placement_glance *ret_glance)
{
	struct placement_glance g = {.open = host->present && !host->cordoned,
				     .empty = host->pods == 0,
				     .make = host->make,
				     .model = host->model,
				     .devices = host->devices};
	int64_t compute = 0, memory = 0;

	g.cpu = (int32_t)within(placement_cpu_room(host), INT32_MAX);
	g.host_memory = (uint32_t)within(placement_host_room(host) / mib + 1, UINT32_MAX);
	for (int i = 0; i < host->devices; i++) {
		const struct placement_gpu *gpu = &host->gpu[i];
		int64_t compute_here, memory_here;

		if (placement_gone(gpu))
			continue;
		g.empties += gpu->tenants == 0;
		if (gpu->is.geometry || gpu->exclusive) {
			g.mig |= gpu->is.geometry != 0;
			continue;
		}
		best_rooms(p, gpu, &compute_here, &memory_here);
		g.wholes += compute_here >= PLACEMENT_WHOLE;
		compute = greater(compute, compute_here);
		memory = greater(memory, memory_here);
	}
	g.compute = (uint32_t)within(compute, UINT32_MAX);
	g.memory = (uint32_t)within((memory + mib - 1) / mib, UINT32_MAX);
	*ret_glance = g;
}

void placement_changed(struct placement *p, uint32_t node)
{
	struct placement_host *host = &p->hosts[node];

	host->changed = ++p->change;
	host->measured.known = false;
	p->changes[p->change % p->limits.nodes] = node;
	glance(p, host, &p->glances[node]);
	placement_brief(p, host, &p->briefs[node]);
}

void placement_changed_all(struct placement *p)
{
	for (uint32_t node = 0; node < p->node_end; node++) {
		glance(p, &p->hosts[node], &p->glances[node]);
		placement_brief(p, &p->hosts[node], &p->briefs[node]);
	}
}

void placement_needs_of(const struct placement_request *request, struct placement_needs *ret_needs)
{
	struct placement_needs needs = {.node = request->node};
	uint64_t memory;
	int64_t cpu;

	placement_host_needs(request, &cpu, &memory);
	needs.cpu = (int32_t)within(cpu, INT32_MAX);
	needs.host_memory = (uint32_t)within((int64_t)(memory / (uint64_t)mib), UINT32_MAX);
	for (int i = 0; i < request->containers; i++) {
		const struct placement_container *it = &request->container[i];

		if (!it->devices)
			continue;
		needs.models = request->models;
		needs.devices = (uint8_t)greater(needs.devices, it->devices);
		needs.mig |= it->profile != 0;
		if (it->profile)
			continue;
		needs.compute = (uint32_t)greater(needs.compute, it->compute_milli);
		needs.memory = (uint32_t)greater(
			needs.memory,
			within((int64_t)(it->memory_bytes / (uint64_t)mib), UINT32_MAX));
		if (it->compute_milli >= PLACEMENT_WHOLE)
			needs.wholes = (uint8_t)greater(needs.wholes, it->devices);
		if (it->exclusive)
			needs.empties = (uint8_t)greater(needs.empties, it->devices);
	}
	*ret_needs = needs;
}
