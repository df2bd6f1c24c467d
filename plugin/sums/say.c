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

/* What is left on the only GPU, or on the best ones. Others may have more of it, and lack something
 * else. */
static void say_left(const struct seating_refusal *refusal, const struct seating_container *it,
		     uint32_t gpus, const char *available, const char *whole, const char *together,
		     char *text, size_t size)
{
	if (gpus == 1)
		snprintf(text, size, "%s of %s are left on this node's GPU", available, whole);
	else if (it->gpus == 1)
		snprintf(text, size,
			 "at most %s are left on any one of this node's %u GPUs%s (%s on all "
			 "together)",
			 available, gpus,
			 refusal->elsewhere ? " that has the rest of what it needs" : "", together);
	else
		snprintf(text, size,
			 "at most %s are left on each of so many of this node's %u GPUs%s",
			 available, gpus,
			 refusal->elsewhere ? " that have the rest of what it needs" : "");
}

static int say_memory(const struct seating_refusal *refusal, const struct seating_container *it,
		      const struct amounts_names *names, uint32_t gpus, struct fault *why)
{
	char left[200];

	say_left(refusal, it, gpus, text_bytes_beside(refusal->available, refusal->needed).text,
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
	char left[200], available[24], whole[24], together[24];

	snprintf(available, sizeof(available), "%llu", (unsigned long long)refusal->available);
	snprintf(whole, sizeof(whole), "%llu", (unsigned long long)refusal->whole);
	snprintf(together, sizeof(together), "%llu", (unsigned long long)refusal->together);
	say_left(refusal, it, gpus, available, whole, together, left, sizeof(left));
	return fault_set(why, -EAGAIN, "%s: %llu %s%s, and %s: %s", names->milli,
			 (unsigned long long)refusal->needed, where_of(it).text,
			 it->slot_milli ? " (a slot, no amount was said)" : "", left, later);
}

/* The GPUs that are large enough are out of service. */
static int say_lost(const struct seating_refusal *refusal, const struct seating_container *it,
		    const struct amounts_names *names, uint32_t gpus, struct fault *why)
{
	if (!gpus)
		return fault_set(why, -EAGAIN,
				 "%s: no GPU of this node is in service: the container starts when "
				 "one is again",
				 names->gpu);
	return fault_set(why, -EAGAIN,
			 "%s: %u GPU%s with %s or more of memory, and %llu such GPU%s of this node "
			 "%s in service: the container starts when more are",
			 names->gpu, it->gpus, it->gpus > 1 ? "s" : "",
			 text_bytes(it->memory_bytes).text, (unsigned long long)refusal->available,
			 refusal->available == 1 ? "" : "s",
			 refusal->available == 1 ? "is" : "are");
}

/* The reason is no lack of an amount. */
static int say_count(const struct seating_pod *pod, const struct amounts_names *names,
		     uint32_t gpus, struct fault *why)
{
	const struct seating_refusal *refusal = &pod->refusal;
	const struct seating_container *it = &pod->container[refusal->container];

	if (refusal->reason == PLACEMENT_NO_DEVICE_COUNT)
		return fault_set(why, -EAGAIN,
				 "%s: %u GPUs for one container, and this node shares out %llu: "
				 "delete the pod, and ask for fewer",
				 names->gpu, it->gpus, (unsigned long long)refusal->available);
	if (refusal->reason == PLACEMENT_NO_LOST)
		return say_lost(refusal, it, names, gpus, why);
	if (refusal->reason == PLACEMENT_NO_EXCLUSIVE || refusal->reason == PLACEMENT_NO_SHARED)
		return fault_set(why, -EAGAIN,
				 "%s: %u GPU%s that no other container %s, and this node has %llu "
				 "of %u%s: %s",
				 names->gpu, it->gpus, it->gpus > 1 ? "s" : "",
				 it->exclusive ? "uses" : "has alone",
				 (unsigned long long)refusal->available, gpus,
				 refusal->elsewhere ? " that has the rest of what it needs" : "",
				 later);
	return fault_set(why, -EAGAIN,
			 "%s: %u containers of this pod are to have GPUs at one time, and of this "
			 "node's %u: %s; %s",
			 names->gpu, pod->containers, gpus, placement_reason_text(refusal->reason),
			 later);
}

static int say_size(const struct seating_refusal *refusal, const struct seating_container *it,
		    const struct amounts_names *names, struct fault *why)
{
	char none[40] = "no GPU of this node has";

	if (it->gpus > 1)
		snprintf(none, sizeof(none), "no %u GPUs of this node have", it->gpus);
	return fault_set(why, -EAGAIN,
			 "%s: %s %s, and %s more than %s: delete the pod, and ask for less, or for "
			 "the same of more GPUs",
			 names->memory, text_bytes_beside(refusal->needed, refusal->available).text,
			 where_of(it).text, none,
			 text_bytes_beside(refusal->available, refusal->needed).text);
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
		return say_size(refusal, it, names, why);
	return say_count(pod, names, gpus, why);
}
