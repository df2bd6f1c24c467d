/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/sums/say.h"

#include <string.h>

#include "base/text.h"

static const char later[] = "the container starts when there is room";

/* "of one GPU", "of each of 2 GPUs". */
struct where {
	char text[32];
};

static struct where where_of(const struct seating_container *it)
{
	struct where where;

	if (it->gpus == 1)
		snprintf(where.text, sizeof(where.text), "of one GPU");
	else
		snprintf(where.text, sizeof(where.text), "of each of %u GPUs", it->gpus);
	return where;
}

/* On the only GPU, or on the best ones. */
static void say_left(const struct seating_container *it, uint32_t gpus, const char *available,
		     const char *whole, const char *together, char *text, size_t size)
{
	if (gpus == 1)
		snprintf(text, size, "%s of %s are left on this node's GPU", available, whole);
	else if (it->gpus == 1)
		snprintf(text, size,
			 "at most %s are left on any one of this node's %u GPUs (%s on all "
			 "together)",
			 available, gpus, together);
	else
		snprintf(text, size,
			 "at most %s are left on each of so many of this node's %u GPUs", available,
			 gpus);
}

static int say_memory(const struct seating_refusal *refusal, const struct seating_container *it,
		      const struct amounts_names *names, uint32_t gpus, struct fault *why)
{
	char left[160];

	say_left(it, gpus, text_bytes_beside(refusal->available, refusal->needed).text,
		 text_bytes(refusal->whole).text, text_bytes(refusal->together).text, left,
		 sizeof(left));
	return fault_set(why, -EAGAIN, "%s: %s %s%s, and %s: %s", names->memory,
			 text_bytes_beside(refusal->needed, refusal->available).text,
			 where_of(it).text, it->slot_memory ? " (a slot, no amount was said)" : "",
			 left, later);
}

static int say_milli(const struct seating_refusal *refusal, const struct seating_container *it,
		     const struct amounts_names *names, uint32_t gpus, struct fault *why)
{
	char left[160], available[24], whole[24], together[24];

	snprintf(available, sizeof(available), "%llu", (unsigned long long)refusal->available);
	snprintf(whole, sizeof(whole), "%llu", (unsigned long long)refusal->whole);
	snprintf(together, sizeof(together), "%llu", (unsigned long long)refusal->together);
	say_left(it, gpus, available, whole, together, left, sizeof(left));
	return fault_set(why, -EAGAIN, "%s: %llu %s%s, and %s: %s", names->milli,
			 (unsigned long long)refusal->needed, where_of(it).text,
			 it->slot_milli ? " (a slot, no amount was said)" : "", left, later);
}

/* The reason is no lack of an amount. */
static int say_count(const struct seating_pod *pod, const struct amounts_names *names,
		     uint32_t gpus, struct fault *why)
{
	const struct seating_refusal *refusal = &pod->refusal;
	const struct seating_container *it = &pod->container[refusal->container];

	if (refusal->reason == PLACEMENT_NO_DEVICE_COUNT)
		return fault_set(why, -EAGAIN,
				 "%s: %u GPUs for one container, and this node shares out %u: "
				 "delete the pod, and ask for fewer",
				 names->gpu, it->gpus, gpus);
	if (refusal->reason == PLACEMENT_NO_LOST)
		return fault_set(why, -EAGAIN,
				 "%s: no GPU of this node is in service: the container starts when "
				 "one is again",
				 names->gpu);
	if (refusal->reason == PLACEMENT_NO_EXCLUSIVE || refusal->reason == PLACEMENT_NO_SHARED)
		return fault_set(why, -EAGAIN,
				 "%s: %u GPU%s that no other container %s, and this node has %llu "
				 "of %u: %s",
				 names->gpu, it->gpus, it->gpus > 1 ? "s" : "",
				 it->exclusive ? "uses" : "has alone",
				 (unsigned long long)refusal->available, gpus, later);
	return fault_set(why, -EAGAIN,
			 "%s: %u containers of this pod are to have GPUs at one time, and of this "
			 "node's %u: %s; %s",
			 names->gpu, pod->containers, gpus, placement_reason_text(refusal->reason),
			 later);
}

int say_refusal(const struct seating_pod *pod, const struct amounts_names *names, uint32_t gpus,
		struct fault *why)
{
	const struct seating_refusal *refusal = &pod->refusal;
	const struct seating_container *it = &pod->container[refusal->container];

	if (refusal->reason == PLACEMENT_NO_MEMORY)
		return say_memory(refusal, it, names, gpus, why);
	if (refusal->reason == PLACEMENT_NO_COMPUTE)
		return say_milli(refusal, it, names, gpus, why);
	if (refusal->reason == PLACEMENT_NO_MEMORY_SIZE)
		return fault_set(why, -EAGAIN,
				 "%s: %s %s, and no GPU of this node has more than %s: delete the "
				 "pod, and ask for less, or for the same of more GPUs",
				 names->memory,
				 text_bytes_beside(refusal->needed, refusal->available).text,
				 where_of(it).text,
				 text_bytes_beside(refusal->available, refusal->needed).text);
	return say_count(pod, names, gpus, why);
}
