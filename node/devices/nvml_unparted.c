/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs in MIG mode without parts: nobody can use them, and the node has them all the same. */
#include <string.h>

#include "node/devices/nvml.h"
#include "node/devices/nvml_inside.h"

void nvml_add_unparted(struct nvml *nvml, nvmlDevice_t gpu, unsigned int gpu_index)
{
	uint32_t i = nvml->unparted_later;
	bool full = nvml->room && nvml->read == nvml->room; /* others read the table */
	struct fault why;

	if (i == NVML_DEVICES_LATER)
		return;
	nvml->unparted_later++;
	/* A row that is taken back. */
	if (!full && nvml_read_gpu(nvml, gpu, gpu_index, &why) == 0) {
		nvml->unparted_gpu_later[i] = nvml->devices[--nvml->read];
		return;
	}
	nvml->unparted_gpu_later[i] = (struct nvml_device){
		.minor = -1, .gpu_index = gpu_index, .gpu_instance = -1, .compute_instance = -1};
}

void nvml_accept_unparted(struct nvml *nvml)
{
	nvml->unparted = nvml->unparted_later;
	memcpy(nvml->unparted_gpu, nvml->unparted_gpu_later,
	       nvml->unparted * sizeof(*nvml->unparted_gpu));
}

uint32_t nvml_unparted(const struct nvml *nvml)
{
	return nvml->unparted;
}

const struct nvml_device *nvml_unparted_gpu(const struct nvml *nvml, uint32_t index)
{
	return &nvml->unparted_gpu[index];
}
