/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A management library whose GPUs METE_PARTED lists, one a word: "lost", which has no handle any
 * more; a UUID; or a UUID and, after "/" and between "+", the UUIDs of the parts into which MIG has
 * divided it. Under the guest, a tenant has some of them.
 */
#include <stdbool.h>
#include <string.h>

#include "base/macros.h"
#include "cuda/nvml_prototypes.h"

enum { GPUS = 8, PARTS = 7 };

struct nvmlDevice_st {
	char uuid[NVML_DEVICE_UUID_BUFFER_SIZE];
	unsigned index;
	bool is_part;
	unsigned parts;
};

static struct {
	unsigned gpus;
	struct nvmlDevice_st gpu[GPUS], part[GPUS][PARTS];
} all;

static void name(struct nvmlDevice_st *device, const char *uuid, unsigned index, bool is_part)
{
	snprintf(device->uuid, sizeof(device->uuid), "%s", uuid);
	device->index = index;
	device->is_part = is_part;
}

__attribute__((constructor)) static void read_all(void)
{
	const char *asked = getenv("METE_PARTED");
	char *text = strdup(asked ? asked : ""), *words, *parts;

	if (!text)
		return;
	for (char *word = strtok_r(text, " ", &words); word && all.gpus < GPUS;
	     word = strtok_r(NULL, " ", &words)) {
		struct nvmlDevice_st *gpu = &all.gpu[all.gpus];
		char *part = strtok_r(word, "/", &parts);

		name(gpu, part, all.gpus, false);
		while ((part = strtok_r(NULL, "+", &parts)) && gpu->parts < PARTS) {
			name(&all.part[all.gpus][gpu->parts], part, gpu->parts, true);
			gpu->parts++;
		}
		all.gpus++;
	}
	free(text);
}

exported nvmlReturn_t nvmlInit_v2(void)
{
	return NVML_SUCCESS;
}

exported nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	*count = all.gpus;
	return NVML_SUCCESS;
}

exported nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	if (index >= all.gpus)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (strcmp(all.gpu[index].uuid, "lost") == 0)
		return NVML_ERROR_GPU_IS_LOST;
	*device = &all.gpu[index];
	return NVML_SUCCESS;
}

exported nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	for (unsigned i = 0; i < all.gpus; i++) {
		if (strcmp(all.gpu[i].uuid, uuid) == 0) {
			*device = &all.gpu[i];
			return NVML_SUCCESS;
		}
		for (unsigned k = 0; k < all.gpu[i].parts; k++) {
			if (strcmp(all.part[i][k].uuid, uuid) == 0) {
				*device = &all.part[i][k];
				return NVML_SUCCESS;
			}
		}
	}
	return NVML_ERROR_NOT_FOUND;
}

exported nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	snprintf(uuid, length, "%s", device->uuid);
	return NVML_SUCCESS;
}

exported nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	*index = device->index;
	return NVML_SUCCESS;
}

exported nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_part)
{
	*is_part = device->is_part;
	return NVML_SUCCESS;
}

/* A part is not divided again. */
exported nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
	if (device->is_part)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = PARTS;
	return NVML_SUCCESS;
}

exported nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
							  nvmlDevice_t *part)
{
	if (device->is_part || index >= PARTS)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (index >= device->parts)
		return NVML_ERROR_NOT_FOUND;
	*part = &all.part[device->index][index];
	return NVML_SUCCESS;
}

/* Half of the whole, which a tenant of a part is not to see of a whole GPU. */
exported nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	(void)device;
	*memory = (nvmlMemory_t){.total = 4ull << 30, .free = 2ull << 30, .used = 2ull << 30};
	return NVML_SUCCESS;
}
