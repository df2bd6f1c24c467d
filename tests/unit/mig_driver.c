/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/mig_driver.h"

#include <stdio.h>

struct mig_nvml mig_driver;

void mig_driver_begin(void)
{
	struct mig_profile *profile = &mig_driver.gpu.profile[0];

	mig_driver = (struct mig_nvml){.broken = MIG_DRIVER_NOWHERE,
				       .lasting = MIG_DRIVER_NOWHERE,
				       .used = MIG_DRIVER_NOWHERE};
	mig_driver.gpu = (struct mig_gpu){.uuid = "GPU-1", .on = true, .profiles = 1};
	*profile = (struct mig_profile){.name = "1g.10gb",
					.slices = 1,
					.most = MIG_DRIVER_PLACES,
					.places = MIG_DRIVER_PLACES};
	for (uint32_t k = 0; k < MIG_DRIVER_PLACES; k++)
		profile->place[k] = (struct mig_place){k, 1};
}

int mig_open(const char *folder, struct mig_nvml **ret_nvml, struct fault *why)
{
	(void)folder;
	if (mig_driver.silent)
		return fault_set(why, -EIO, "NVML does not answer");
	*ret_nvml = &mig_driver;
	return 0;
}

void mig_close(struct mig_nvml *nvml)
{
	(void)nvml;
}

uint32_t mig_count(const struct mig_nvml *nvml)
{
	(void)nvml;
	return 1;
}

int mig_read(const struct mig_nvml *nvml, uint32_t index, struct mig_gpu *ret_gpu,
	     struct fault *why)
{
	(void)index;
	(void)why;
	*ret_gpu = nvml->gpu;
	return 0;
}

int mig_make(const struct mig_nvml *nvml, const struct mig_gpu *gpu, uint32_t profile,
	     uint32_t start, struct fault *why)
{
	struct mig_part *part = &mig_driver.gpu.part[mig_driver.gpu.parts++];

	(void)nvml;
	*part = (struct mig_part){.profile = profile, .id = start, .place = {start, 1}};
	if (start == mig_driver.broken)
		return fault_set(why, -EIO, "GPU %u: no compute instance", gpu->index);
	part->computes = 1;
	part->compute_slices[0] = 1;
	snprintf(part->uuid[0], MIG_UUID_MAX, "MIG-%u", start);
	return 0;
}

int mig_unmake(const struct mig_nvml *nvml, const struct mig_gpu *gpu, const struct mig_part *part,
	       struct fault *why)
{
	struct mig_gpu *now = &mig_driver.gpu;

	(void)nvml;
	if (part->id == mig_driver.lasting)
		return fault_set(why, -EIO, "GPU %u: it stays", gpu->index);
	for (uint32_t i = now->parts; i-- > 0;)
		if (now->part[i].id == part->id)
			now->part[i] = now->part[--now->parts];
	return 0;
}

int mig_user(const struct mig_nvml *nvml, const struct mig_gpu *gpu, const struct mig_part *part,
	     unsigned *ret_pid)
{
	(void)gpu;
	*ret_pid = part->id == nvml->used ? 4711 : 0;
	return nvml->unsaid ? -EIO : 0;
}
