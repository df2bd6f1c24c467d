/* SPDX-License-Identifier: Apache-2.0 */
/* All that a pod's containers may be given on a node, one after the other: does anything fit? */
#include "tests/test.h"
#include "tests/unit/placement_world.h"

/* The pod's part of a GPU; false: its containers are in each other's way there. */
static bool would_hold(const struct pod *pod, int gpu, struct load *ret_load)
{
	const struct placement_request *request = &pod->request;

	*ret_load = (struct load){0};
	for (int phase = -1; phase < request->containers; phase++) {
		uint64_t memory = 0, compute = 0;
		uint32_t tenants = 0, alone = 0;

		if (phase >= 0 && request->container[phase].kind != PLACEMENT_INIT)
			continue;
		for (int i = 0; i < pod->assignment.size; i++) {
			const struct placement_slot *slot = &pod->assignment.slot[i];
			const struct placement_container *it = &request->container[slot->container];

			if (slot->device != gpu || it->profile ||
			    !oracle_runs(request, slot->container, phase))
				continue;
			memory += it->memory_bytes;
			compute += it->compute_milli;
			tenants++;
			alone += it->exclusive;
		}
		if (alone && tenants > 1)
			return false;
		ret_load->exclusive |= alone;
		if (memory > ret_load->memory[request->class])
			ret_load->memory[request->class] = memory;
		if (compute > ret_load->compute[request->class])
			ret_load->compute[request->class] = compute;
		if (tenants > ret_load->tenants)
			ret_load->tenants = tenants;
	}
	for (int i = 0; i < pod->assignment.size; i++) {
		const struct placement_slot *slot = &pod->assignment.slot[i];
		uint16_t name = request->container[slot->container].profile;
		uint32_t slices;

		if (slot->device != gpu || !name)
			continue;
		slices = oracle_slices(&world.node[pod->node].device[gpu], name, slot->start);
		if (!slices || ret_load->slices & slices)
			return false;
		ret_load->slices |= slices;
		ret_load->instances[name - 1]++;
		ret_load->tenants++;
	}
	return true;
}

static bool gpu_holds(const struct pod *pod, int gpu)
{
	const struct placement_device *it = &world.node[pod->node].device[gpu];
	struct load there = oracle_load(pod->node, gpu), more;

	if (!would_hold(pod, gpu, &more))
		return false;
	if (more.tenants == 0)
		return true;
	if (it->lost || there.leftovers)
		return false;
	if (it->slots && there.tenants + more.tenants > it->slots)
		return false;
	if (there.slices & more.slices ||
	    ((there.exclusive || more.exclusive) && there.tenants && more.tenants))
		return false;
	for (int i = 0; i < PROFILES; i++) {
		const struct placement_profile *profile =
			world_profile(it->geometry, (uint16_t)(i + 1));

		if (profile && profile->most && more.instances[i] &&
		    there.instances[i] + more.instances[i] > profile->most)
			return false;
	}
	for (int c = 0; c < PLACEMENT_CLASSES; c++) {
		there.memory[c] += more.memory[c];
		there.compute[c] += more.compute[c];
	}
	/* Room that was promised to other classes before stays promised. */
	return (!more.memory[pod->request.class] ||
		oracle_room(it->memory_bytes, there.memory, true, pod->request.class) >= 0) &&
	       (!more.compute[pod->request.class] ||
		oracle_room(it->compute_milli, there.compute, false, pod->request.class) >= 0);
}

static bool may_join(const struct pod *pod, int container, int gpu)
{
	const struct placement_node *node = &world.node[pod->node];
	const struct placement_request *request = &pod->request;
	const struct placement_device *it = &node->device[gpu];

	if ((request->named_devices && !(request->named_devices >> gpu & 1)) ||
	    (it->taints & ~request->tolerations) ||
	    !it->geometry != !request->container[container].profile)
		return false;
	for (int i = 0; i < pod->assignment.size; i++) {
		int other = pod->assignment.slot[i].device;

		if (pod->assignment.slot[i].container != container)
			continue;
		if (request->numa == PLACEMENT_REQUIRE && node->device[other].numa != it->numa)
			return false;
		if (request->links == PLACEMENT_REQUIRE && !(it->links >> other & 1))
			return false;
	}
	return true;
}

/* `left` more GPUs for a container, from `gpu` on; then the next containers. */
static bool fits_from(struct pod *pod, int container, int gpu, int left)
{
	const struct placement_container *want = &pod->request.container[container];
	if (container == pod->request.containers)
		return true;
	if (left == 0)
		return fits_from(pod, container + 1, 0,
				 container + 1 < pod->request.containers ? want[1].devices : 0);
	for (; gpu < world.node[pod->node].devices; gpu++) {
		if (!may_join(pod, container, gpu))
			continue;
		for (uint8_t start = 0; start < 4; start++) {
			bool fits;

			if (start > 0 && !want->profile)
				break;
			pod->assignment.slot[pod->assignment.size++] =
				(struct placement_slot){(uint8_t)container, (uint8_t)gpu, start};
			fits = gpu_holds(pod, gpu) && fits_from(pod, container, gpu + 1, left - 1);
			pod->assignment.size--;
			if (fits)
				return true;
		}
	}
	return false;
}

bool brute_fits(uint32_t node, const struct placement_request *request)
{
	struct pod pod = {.request = *request, .node = node};

	return oracle_node(node, request) == 0 &&
	       fits_from(&pod, 0, 0, request->container[0].devices);
}
