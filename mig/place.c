/* SPDX-License-Identifier: Apache-2.0 */
#include "mig/place.h"

#include <string.h>

int mig_place_name(const struct mig_gpu *gpu, uint32_t profile, uint32_t place, char *ret_name,
		   size_t size)
{
	int n = snprintf(ret_name, size, "%s:%s:%u", gpu->uuid, gpu->profile[profile].name,
			 gpu->profile[profile].place[place].start);

	return n < 0 || (size_t)n >= size ? -ENAMETOOLONG : 0;
}

/* Replicas of a device have two colons in a row, and nothing else with a name of ours has one. */
bool mig_place_is_name(const char *name)
{
	const char *colon = strchr(name, ':');

	return strncmp(name, "GPU-", 4) == 0 && colon && colon[1] && colon[1] != ':';
}

static const struct mig_gpu *find_gpu(const struct mig_gpu *gpus, uint32_t count, const char *name,
				      size_t length)
{
	for (uint32_t i = 0; i < count; i++)
		if (gpus[i].on && strlen(gpus[i].uuid) == length &&
		    strncmp(gpus[i].uuid, name, length) == 0)
			return &gpus[i];
	return NULL;
}

int mig_place_find(const struct mig_gpu *gpus, uint32_t count, const char *name,
		   struct mig_place_at *ret_at)
{
	const char *colon = mig_place_is_name(name) ? strchr(name, ':') : NULL;
	const struct mig_gpu *gpu =
		colon ? find_gpu(gpus, count, name, (size_t)(colon - name)) : NULL;

	for (uint32_t i = 0; gpu && i < gpu->profiles; i++) {
		for (uint32_t k = 0; k < gpu->profile[i].places; k++) {
			char other[MIG_PLACE_NAME_MAX];

			if (mig_place_name(gpu, i, k, other, sizeof(other)) < 0 ||
			    strcmp(other, name) != 0)
				continue;
			*ret_at = (struct mig_place_at){(uint32_t)(gpu - gpus), i, k};
			return 0;
		}
	}
	return -ENOENT;
}
