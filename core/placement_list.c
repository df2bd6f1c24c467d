/* SPDX-License-Identifier: Apache-2.0 */
/* What is where, and what is left: for who shows it, and for a scheduler's extender. */
#include "core/placement_machine.h"

int placement_pods(const struct placement *p, uint32_t node, uint64_t *ret_pods, size_t room,
		   size_t *ret_size)
{
	size_t size = 0;

	if (node >= p->node_end || !p->hosts[node].present)
		return -ENOENT;
	for (int32_t at = p->hosts[node].first_pod; at >= 0; at = p->pods[at].next, size++)
		if (size < room)
			ret_pods[size] = placement_pod_name(p, at);
	*ret_size = size;
	return size > room ? -ENOSPC : 0;
}

int placement_left(const struct placement *p, uint32_t node, uint8_t class,
		   struct placement_left *ret_left)
{
	const struct placement_host *host = node < p->node_end ? &p->hosts[node] : NULL;

	if (!host || !host->present)
		return -ENOENT;
	if (class >= PLACEMENT_CLASSES)
		return -EINVAL;
	memset(ret_left, 0, sizeof(*ret_left));
	ret_left->cpu_milli = (uint64_t)(host->cpu - host->cpu_used);
	ret_left->host_memory_bytes = host->memory_bytes - host->memory_used;
	ret_left->pods = host->pods;
	ret_left->devices = host->devices;
	for (int i = 0; i < host->devices; i++) {
		const struct placement_gpu *gpu = &host->gpu[i];
		struct placement_device_left *left = &ret_left->device[i];
		int64_t compute = placement_compute_room(p, gpu, class);
		int64_t memory = placement_memory_room(p, gpu, class);
		bool closed = placement_closed(gpu);

		left->tenants = gpu->tenants;
		left->mig_taken = gpu->mig_taken;
		left->compute_milli = closed || compute < 0 ? 0 : (uint32_t)compute;
		left->memory_bytes = closed || memory < 0 ? 0 : (uint64_t)memory;
	}
	return 0;
}

int placement_reasons(struct placement *p, const struct placement_request *request,
		      uint32_t ret_nodes[PLACEMENT_REASONS])
{
	int r = placement_valid(request);

	memset(ret_nodes, 0, PLACEMENT_REASONS * sizeof(*ret_nodes));
	for (uint32_t node = 0; node < p->node_end && r == 0; node++) {
		struct placement_refusal refusal;

		if (!p->hosts[node].present)
			continue;
		r = placement_explain(p, request, node, &refusal);
		if (r == 0)
			ret_nodes[refusal.reason]++;
	}
	return r;
}
