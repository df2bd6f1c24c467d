/* SPDX-License-Identifier: Apache-2.0 */
/* Why a node does not take a request: the constraint that binds, and the numbers behind it. */
#include "core/placement/placement_machine.h"

static bool fits_without(struct placement *p, uint32_t node,
			 const struct placement_request *request, uint32_t lifted)
{
	struct placement_assignment assignment;
	int32_t score;

	p->tries = PLACEMENT_TRIES_ALL;
	return placement_assign(p, &p->hosts[node], node, request, lifted, &assignment, &score) ==
	       0;
}

/* The first reason of a node that has too few devices, which lifting a constraint does not help;
 * PLACEMENT_FITS: it has enough. */
static enum placement_reason without_gpus(const struct placement *p, uint32_t node,
					  const struct placement_request *request)
{
	uint32_t refusals = placement_node_refusals(&p->hosts[node], node, request);

	return refusals & BIT(DEVICE_COUNT) ? placement_first_reason(refusals) : PLACEMENT_FITS;
}

/* The reason that it suffices to lift; of several, first one by which there are GPUs enough. If
 * none suffices, the first that still holds with all later ones lifted. *ret_lifted: those that
 * are lifted where it holds. */
static enum placement_reason binding(struct placement *p, uint32_t node,
				     const struct placement_request *request, uint32_t *ret_lifted)
{
	const uint32_t enough = BIT(NUMA) | BIT(LINK) | BIT(PACKING);
	enum placement_reason missing = without_gpus(p, node, request);

	*ret_lifted = ~(1u << missing);
	if (missing)
		return missing;
	*ret_lifted = 0;
	for (uint32_t others = 0; others < 2; others++)
		for (int r = 1; r < PLACEMENT_REASONS; r++)
			if ((enough >> r & 1) != others && fits_without(p, node, request, 1u << r))
				return (enum placement_reason)r;
	for (int r = 1; r < PLACEMENT_REASONS - 1; r++) {
		*ret_lifted = ~((2u << r) - 1);
		if (!fits_without(p, node, request, *ret_lifted))
			return (enum placement_reason)r;
	}
	*ret_lifted = 0;
	return PLACEMENT_NO_PACKING;
}

static int64_t room_for(const struct placement *p, const struct placement_gpu *gpu, uint8_t class,
			enum placement_reason reason)
{
	if (reason == PLACEMENT_NO_MEMORY)
		return placement_memory_room(p, gpu, class);
	if (reason == PLACEMENT_NO_COMPUTE)
		return placement_compute_room(p, gpu, class);
	return gpu->is.most_bytes && gpu->is.most_bytes < gpu->is.memory_bytes
		       ? (int64_t)gpu->is.most_bytes
		       : (int64_t)gpu->is.memory_bytes;
}

/* The amount that the container could have on each of as many GPUs as it wants: of GPUs where
 * nothing but the reason is in the way, and of others only if there are too few of these. */
static uint64_t best_amount(const struct placement *p, const struct placement_host *host,
			    const struct placement_request *request,
			    const struct placement_container *want, enum placement_reason reason)
{
	int64_t best[PLACEMENT_DEVICES] = {0};
	int size = 0;

	for (int pass = 0; pass < 2 && size < want->devices; pass++) {
		size = 0;
		for (uint32_t i = 0; i < host->devices; i++) {
			const struct placement_gpu *gpu = &host->gpu[i];
			int64_t room = room_for(p, gpu, request->class, reason);
			int at = size;

			if (pass == 0 &&
			    placement_gpu_refusals(p, gpu, request, want, i) & ~(1u << reason))
				continue;
			for (size++; at > 0 && room > best[at - 1]; at--)
				best[at] = best[at - 1];
			best[at] = room;
		}
	}
	return best[want->devices - 1] > 0 ? (uint64_t)best[want->devices - 1] : 0;
}

static int count_gpus(const struct placement *p, const struct placement_host *host,
		      const struct placement_request *request,
		      const struct placement_container *want, uint32_t without)
{
	int n = 0;

	for (uint32_t i = 0; i < host->devices; i++)
		n += !(placement_gpu_refusals(p, &host->gpu[i], request, want, i) & without);
	return n;
}

/* The first container that is kept out though these reasons are lifted; if each alone has GPUs
 * enough, the first that has none beside those before it. */
static uint8_t kept_out(struct placement *p, uint32_t node, const struct placement_request *request,
			uint32_t lifted)
{
	struct placement_request some = *request;

	for (uint8_t c = 0; c < request->containers; c++)
		if (count_gpus(p, &p->hosts[node], request, &request->container[c], ~lifted) <
		    request->container[c].devices)
			return c;
	for (some.containers = 1; some.containers < request->containers; some.containers++)
		if (!fits_without(p, node, &some, lifted))
			break;
	return (uint8_t)(some.containers - 1);
}

/* The container that is kept out, and the numbers behind the reason. */
static void find_numbers(struct placement *p, uint32_t node,
			 const struct placement_request *request, uint32_t lifted,
			 struct placement_refusal *refusal)
{
	const uint32_t amounts = BIT(MEMORY) | BIT(MEMORY_SIZE) | BIT(COMPUTE);
	const struct placement_host *host = &p->hosts[node];
	const struct placement_container *want;
	uint32_t bit = 1u << refusal->reason;
	int64_t cpu;
	uint64_t memory;

	placement_host_needs(request, &cpu, &memory);
	if (refusal->reason == PLACEMENT_NO_CPU || refusal->reason == PLACEMENT_NO_HOST_MEMORY) {
		bool is_cpu = refusal->reason == PLACEMENT_NO_CPU;

		refusal->needed = is_cpu ? (uint64_t)cpu : memory;
		int64_t room = is_cpu ? placement_cpu_room(host) : placement_host_room(host);
		refusal->available = room > 0 ? (uint64_t)room : 0;
		return;
	}
	if (!request->containers)
		return;
	refusal->container = kept_out(p, node, request, lifted);
	want = &request->container[refusal->container];
	refusal->needed = want->devices;
	refusal->available = (uint64_t)count_gpus(p, host, request, want, bit);
	/* Enough of them, and something else is in the way on some. */
	if (refusal->available >= refusal->needed)
		refusal->available = (uint64_t)count_gpus(p, host, request, want, ~lifted);
	if (!(bit & amounts) || !want->devices)
		return;
	refusal->needed =
		refusal->reason == PLACEMENT_NO_COMPUTE ? want->compute_milli : want->memory_bytes;
	refusal->available = best_amount(p, host, request, want, refusal->reason);
}

int placement_explain(struct placement *p, const struct placement_request *request, uint32_t node,
		      struct placement_refusal *ret_refusal)
{
	uint32_t lifted;

	if (!placement_find_host(p, node))
		return -ENOENT;
	if (placement_valid(request) < 0)
		return -EINVAL;
	placement_weigh(p);
	*ret_refusal = (struct placement_refusal){PLACEMENT_FITS, 0, 0, 0};
	if (fits_without(p, node, request, 0))
		return 0;
	ret_refusal->reason = binding(p, node, request, &lifted);
	find_numbers(p, node, request, lifted, ret_refusal);
	return 0;
}

int placement_try(struct placement *p, const struct placement_request *request, uint32_t node,
		  struct placement_decision *ret_decision)
{
	struct placement_refusal refusal;
	int r = placement_explain(p, request, node, &refusal);

	if (r < 0)
		return r;
	if (refusal.reason)
		return refusal.reason;
	p->tries = PLACEMENT_TRIES_ALL;
	ret_decision->node = node;
	return placement_assign(p, &p->hosts[node], node, request, 0, &ret_decision->assignment,
				&ret_decision->score);
}
