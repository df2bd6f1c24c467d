/* SPDX-License-Identifier: Apache-2.0 */
#include "mig/gpu.h"

#include <string.h>

void mig_part_name(const struct mig_gpu *gpu, const struct mig_part *part, uint32_t compute,
		   char ret_name[MIG_NAME_MAX])
{
	const struct mig_profile *profile = &gpu->profile[part->profile];

	if (part->compute_slices[compute] == profile->slices)
		snprintf(ret_name, MIG_NAME_MAX, "%s", profile->name);
	else
		snprintf(ret_name, MIG_NAME_MAX, "%uc.%.24s", part->compute_slices[compute],
			 profile->name);
}

bool mig_part_is_whole(const struct mig_gpu *gpu, const struct mig_part *part)
{
	return part->computes == 1 && part->compute_slices[0] == gpu->profile[part->profile].slices;
}

static void count(struct mig_wish *is, const char *name)
{
	uint32_t i = 0;

	while (i < is->kinds && strcmp(is->kind[i].name, name) != 0)
		i++;
	if (i == MIG_KINDS_MAX)
		return;
	if (i == is->kinds)
		snprintf(is->kind[is->kinds++].name, MIG_NAME_MAX, "%s", name);
	is->kind[i].count++;
}

void mig_gpu_is(const struct mig_gpu *gpu, struct mig_wish *ret_is)
{
	memset(ret_is, 0, sizeof(*ret_is));
	ret_is->enabled = gpu->on;
	for (uint32_t i = 0; gpu->on && i < gpu->parts; i++) {
		for (uint32_t k = 0; k < gpu->part[i].computes; k++) {
			char name[MIG_NAME_MAX];

			mig_part_name(gpu, &gpu->part[i], k, name);
			count(ret_is, name);
		}
	}
}

static uint32_t count_of(const struct mig_wish *wish, const char *name)
{
	for (uint32_t i = 0; i < wish->kinds; i++)
		if (strcmp(wish->kind[i].name, name) == 0)
			return wish->kind[i].count;
	return 0;
}

bool mig_wish_same(const struct mig_wish *a, const struct mig_wish *b)
{
	if (a->enabled != b->enabled || a->kinds != b->kinds)
		return false;
	for (uint32_t i = 0; i < a->kinds; i++)
		if (count_of(b, a->kind[i].name) != a->kind[i].count)
			return false;
	return true;
}
