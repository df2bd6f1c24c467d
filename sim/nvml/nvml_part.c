/* SPDX-License-Identifier: Apache-2.0 */
/* NVML's questions that a part of a GPU answers, too, with values of its own. */
#include <strings.h>

#include "cuda/nvml_prototypes.h"
#include "sim/machine/device.h"
#include "sim/nvml/nvml.h"

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	char text[41];
	int place;
	nvmlReturn_t r = nvml_known(device, &place);

	if (r != NVML_SUCCESS)
		return r;
	device_uuid_text(place, text);
	return nvml_text(uuid, length, text);
}

static bool has_uuid(int place, const char *uuid)
{
	char text[41];

	device_uuid_text(place, text);
	return strcasecmp(text, uuid) == 0;
}

static int place_with(const char *uuid)
{
	int parts[MIG_PARTS];

	for (int i = 0; i < device_count(); i++) {
		unsigned count = parts_list(i, true, parts);

		if (has_uuid(i, uuid))
			return i;
		for (unsigned k = 0; k < count; k++)
			if (has_uuid(parts[k], uuid))
				return parts[k];
	}
	return -1;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	nvmlReturn_t r = nvml_ready();
	int place;

	if (r != NVML_SUCCESS)
		return r;
	if (!uuid || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	place = place_with(uuid);
	if (place < 0)
		return NVML_ERROR_NOT_FOUND;
	*device = nvml_handle(place);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
	int place;
	nvmlReturn_t r = nvml_device_or_part(device, &place);

	return r == NVML_SUCCESS ? nvml_text(name, length, device_shape(place)->name) : r;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	int place;
	nvmlReturn_t r = nvml_device_or_part(device, &place);

	if (r != NVML_SUCCESS)
		return r;
	if (!major || !minor)
		return NVML_ERROR_INVALID_ARGUMENT;
	*major = (int)device_shape(place)->capability_major;
	*minor = (int)device_shape(place)->capability_minor;
	return NVML_SUCCESS;
}
