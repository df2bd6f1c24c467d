/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVML: in which fabric of NVLinks a device is. The file `fabric` in METE_SIM_DIR has a line for
 * each device: its number, the state as a number of NVML's, the domain's UUID and the clique there.
 * It is read at each call, since a fabric may come up late.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cuda/nvml_prototypes.h"
#include "sim/nvml/nvml.h"

enum { LINE_MOST = 128 };

static bool read_uuid(const char *text, unsigned char ret_uuid[NVML_GPU_FABRIC_UUID_LEN])
{
	size_t digits = 0;

	memset(ret_uuid, 0, NVML_GPU_FABRIC_UUID_LEN);
	for (; *text; text++) {
		int value = text_hex(*text);

		if (*text == '-')
			continue;
		if (value < 0 || digits == (size_t)2 * NVML_GPU_FABRIC_UUID_LEN)
			return false;
		ret_uuid[digits / 2] = (unsigned char)(ret_uuid[digits / 2] << 4 | value);
		digits++;
	}
	return digits == (size_t)2 * NVML_GPU_FABRIC_UUID_LEN;
}

/* False: the line is about another device, or is none. */
static bool read_line(const char *line, int device, nvmlGpuFabricInfo_t *ret_info)
{
	unsigned int number, state, clique;
	char uuid[64];

	if (sscanf(line, "%u %u %63s %u", &number, &state, uuid, &clique) != 4 ||
	    number != (unsigned int)device || !read_uuid(uuid, ret_info->clusterUuid))
		return false;
	ret_info->status = NVML_SUCCESS;
	ret_info->cliqueId = clique;
	ret_info->state = (nvmlGpuFabricState_t)state;
	return true;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *gpuFabricInfo)
{
	char path[PATH_MAX], line[LINE_MOST];
	bool found = false;
	FILE *file;
	int n;
	nvmlReturn_t r = nvml_device(device, &n);

	if (r != NVML_SUCCESS)
		return r;
	if (!gpuFabricInfo)
		return NVML_ERROR_INVALID_ARGUMENT;
	snprintf(path, sizeof(path), "%s/fabric", segment_folder());
	file = fopen(path, "re");
	while (file && !found && fgets(line, sizeof(line), file))
		found = read_line(line, n, gpuFabricInfo);
	if (file)
		fclose(file);
	return found ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}
