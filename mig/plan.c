/* SPDX-License-Identifier: Apache-2.0 */
#include "mig/plan.h"

#include <string.h>

#include "base/words.h"

int mig_find_profile(const struct mig_gpu *gpu, const char *name)
{
	for (uint32_t i = 0; i < gpu->profiles; i++)
		if (strcmp(gpu->profile[i].name, name) == 0)
			return (int)i;
	return -1;
}

static int say_unknown(const struct mig_gpu *gpu, const char *name, struct fault *why)
{
	char names[320] = "";
	size_t n = 0;

	for (uint32_t i = 0; i < gpu->profiles && n < sizeof(names); i++)
		n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", i ? ", " : "",
				      gpu->profile[i].name);
	if (strstr(name, "c."))
		return fault_set(why, -ENOENT,
				 "GPU %u: %s would have a part of a GPU instance's processors, "
				 "which mete does not make; accepted there: %s",
				 gpu->index, name, names);
	return fault_set(why, -ENOENT, "GPU %u (%.60s) has no profile %s; accepted there: %s",
			 gpu->index, gpu->name, name, names);
}

/* ---- the search ----------------------------------------------------------------------------- */

struct search {
	const struct mig_gpu *gpu;
	uint32_t taken;		      /* slices of memory: bit i the one at i */
	uint32_t want[MIG_KINDS_MAX]; /* more parts of each profile */
	struct mig_plan *plan;
};

static uint32_t mask_of(struct mig_place place)
{
	return place.size > 31 || place.start > 31 ? UINT32_MAX
						   : ((1u << place.size) - 1) << place.start;
}

/* The largest first: they have the fewest places. -1: nothing is wanted any more. */
static int next_profile(const struct search *s)
{
	int largest = -1;

	for (uint32_t i = 0; i < s->gpu->profiles; i++)
		if (s->want[i] && (largest < 0 || s->gpu->profile[i].place[0].size >
							  s->gpu->profile[largest].place[0].size))
			largest = (int)i;
	return largest;
}

/* `from`: places of the same profile before it were tried. Seven parts at most, of which most have
 * few places: that ends soon. */
static bool fill(struct search *s, int of, uint32_t from)
{
	int now = next_profile(s);
	const struct mig_profile *profile;

	if (now < 0)
		return true;
	profile = &s->gpu->profile[now];
	if (s->plan->makes == MIG_PARTS_MAX)
		return false;
	for (uint32_t i = now == of ? from : 0; i < profile->places; i++) {
		uint32_t mask = mask_of(profile->place[i]);

		if (mask & s->taken)
			continue;
		s->taken |= mask;
		s->want[now]--;
		s->plan->make[s->plan->makes].profile = (uint32_t)now;
		s->plan->make[s->plan->makes++].start = profile->place[i].start;
		if (fill(s, now, i + 1))
			return true;
		s->plan->makes--;
		s->want[now]++;
		s->taken &= ~mask;
	}
	return false;
}

enum which { ALL, USED, NONE };

/* Keeps what may stay of the wanted, and looks for room for the rest. */
static bool attempt(const struct mig_gpu *gpu, const uint32_t want[MIG_KINDS_MAX],
		    const bool used[MIG_PARTS_MAX], enum which which, struct mig_plan *plan)
{
	struct search s = {.gpu = gpu, .plan = plan};

	memset(plan, 0, sizeof(*plan));
	memcpy(s.want, want, sizeof(s.want));
	/* Those in use first: of two that are alike the idle one goes. */
	for (uint32_t round = 0; round < 2 && which != NONE; round++) {
		for (uint32_t i = 0; i < gpu->parts; i++) {
			const struct mig_part *part = &gpu->part[i];

			if (used[i] != (round == 0) || (which == USED && !used[i]) ||
			    !s.want[part->profile] || !mig_part_is_whole(gpu, part))
				continue;
			plan->stays[i] = true;
			s.want[part->profile]--;
			s.taken |= mask_of(part->place);
		}
	}
	return fill(&s, -1, 0);
}

static int say_full(const struct mig_gpu *gpu, const struct mig_wish *wish, struct fault *why)
{
	char parts[320] = "";
	size_t n = 0;

	for (uint32_t i = 0; i < wish->kinds && n < sizeof(parts); i++)
		n += (size_t)snprintf(parts + n, sizeof(parts) - n, "%s%u %s", i ? ", " : "",
				      wish->kind[i].count, wish->kind[i].name);
	return fault_set(why, -ENOSPC, "GPU %u (%.60s) has no room for all of these together: %s",
			 gpu->index, gpu->name, parts);
}

int mig_plan(const struct mig_gpu *gpu, const struct mig_wish *wish, const bool used[MIG_PARTS_MAX],
	     struct mig_plan *ret_plan, struct fault *why)
{
	uint32_t want[MIG_KINDS_MAX] = {0};
	bool places = false;

	memset(ret_plan, 0, sizeof(*ret_plan));
	for (uint32_t i = 0; i < wish->kinds; i++) {
		int profile = mig_find_profile(gpu, wish->kind[i].name);

		if (profile < 0)
			return say_unknown(gpu, wish->kind[i].name, why);
		if (wish->kind[i].count > gpu->profile[profile].most)
			return say_full(gpu, wish, why);
		want[profile] = wish->kind[i].count;
		places |= gpu->profile[profile].places > 0;
	}
	if (wish->kinds && !places)
		return 0;
	for (enum which which = ALL; which <= NONE; which++)
		if (attempt(gpu, want, used, which, ret_plan))
			return 0;
	return say_full(gpu, wish, why);
}
