/* SPDX-License-Identifier: Apache-2.0 */
/* Lists pods and the room that is left, for programs that show it and a scheduler's extender. */
#include "core/placement/placement_machine.h"

int placement_pods(const struct placement *p, uint32_t node, uint64_t *ret_pods, size_t room,
		   size_t *ret_size)
{
	const struct placement_host *host = placement_find_host(p, node);
	size_t size = 0;

	if (!host)
		return -ENOENT;
	for (int32_t at = host->first_pod; at >= 0; at = p->pods[at].next, size++)
		if (size < room)
			ret_pods[size] = placement_pod_name(p, at);
	*ret_size = size;
	return size > room ? -ENOSPC : 0;
}

int placement_get_pod(const struct placement *p, uint64_t name, struct placement_pod_info *ret_pod)
{
	const struct placement_pod *pod = placement_find_pod(p, name);

	if (!pod)
		return -ENOENT;
	*ret_pod = (struct placement_pod_info){.until = pod->until,
					       .node = (uint32_t)pod->node,
					       .priority = pod->priority,
					       .budget = pod->budget,
					       .class = pod->class};
	return 0;
}

/* Room that is left, or promised beyond what there is. */
static void split(int64_t room, uint64_t *ret_left, uint64_t *ret_over)
{
	*ret_left = room > 0 ? (uint64_t)room : 0;
	*ret_over = room < 0 ? (uint64_t)-room : 0;
}

int placement_left(const struct placement *p, uint32_t node, uint8_t class,
		   struct placement_left *ret_left)
{
	const struct placement_host *host = placement_find_host(p, node);

	if (!host)
		return -ENOENT;
	if (class >= PLACEMENT_CLASSES)
		return -EINVAL;
	memset(ret_left, 0, sizeof(*ret_left));
	split(placement_cpu_room(host), &ret_left->cpu_milli, &ret_left->cpu_over_milli);
	split(placement_host_room(host), &ret_left->host_memory_bytes,
	      &ret_left->host_memory_over_bytes);
	ret_left->over = host->over;
	ret_left->pods = host->pods;
	ret_left->devices = host->devices;
	for (int i = 0; i < host->devices; i++) {
		const struct placement_gpu *gpu = &host->gpu[i];
		struct placement_device_left *left = &ret_left->device[i];
		uint64_t compute, compute_over;

		split(placement_compute_room(p, gpu, class), &compute, &compute_over);
		split(placement_memory_room(p, gpu, class), &left->memory_bytes,
		      &left->memory_over_bytes);
		left->compute_milli = (uint32_t)compute;
		left->compute_over_milli = (uint32_t)compute_over;
		left->tenants = gpu->tenants;
		left->mig_taken = gpu->mig_taken;
		left->over = gpu->over;
		left->lost = gpu->is.lost;
		if (placement_closed(gpu))
			left->memory_bytes = left->compute_milli = 0;
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
