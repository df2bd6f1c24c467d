/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/least.h"
#include "node/devices/nvml.h"
#include "node/devices/nvml_inside.h"

/* Registers only supported kinds: one that the device does not support (ECC's, without ECC) would
 * make the driver refuse all. Even without events, whether a device answers is still checked. */
static void register_events(const struct nvml *nvml, nvmlDevice_t gpu)
{
	unsigned long long kinds = nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError;
	unsigned long long supported;

	if (nvml->nvmlDeviceGetSupportedEventTypes &&
	    nvml->nvmlDeviceGetSupportedEventTypes(gpu, &supported) == NVML_SUCCESS)
		kinds &= supported;
	if (kinds)
		nvml->nvmlDeviceRegisterEvents(gpu, kinds, nvml->events);
}

static bool is_registered(const struct nvml *nvml, nvmlDevice_t gpu)
{
	for (uint32_t i = 0; i < nvml->registered; i++)
		if (nvml->gpus[i] == gpu)
			return true;
	return false;
}

static int begin_events(struct nvml *nvml, uint32_t count)
{

	if (!nvml->events && (!nvml->nvmlEventSetCreate || !nvml->nvmlEventSetFree ||
			      !nvml->nvmlEventSetWait_v2 || !nvml->nvmlDeviceRegisterEvents ||
			      nvml->nvmlEventSetCreate(&nvml->events) != NVML_SUCCESS))
		return -EIO;
	for (; nvml->registered < count; nvml->registered++)
		if (!is_registered(nvml, nvml->gpus[nvml->registered]))
			register_events(nvml, nvml->gpus[nvml->registered]);
	return 0;
}

/* An event of a GPU concerns all its parts, unless the driver names one. */
static bool befalls(const struct nvml *nvml, const nvmlEventData_t *data, uint32_t index)
{
	const struct nvml_device *device = &nvml->devices[index];

	if (nvml->gpus[index] != data->device && nvml_handle(nvml, index) != data->device)
		return false;
	return device->gpu_instance < 0 || data->gpuInstanceId == UINT32_MAX ||
	       (data->gpuInstanceId == (unsigned int)device->gpu_instance &&
		(data->computeInstanceId == UINT32_MAX ||
		 data->computeInstanceId == (unsigned int)device->compute_instance));
}

int nvml_events(struct nvml *nvml, uint32_t devices, struct nvml_event *out, uint32_t room,
		uint32_t *ret_count)
{
	uint32_t n = 0, known = __atomic_load_n(&nvml->count, __ATOMIC_ACQUIRE);
	uint32_t count = (uint32_t)least(known, devices);
	int r = begin_events(nvml, count);

	/* An event may befall all devices: without room for that it waits for the next call. */
	while (r == 0 && room - n >= count) {
		nvmlEventData_t data;
		nvmlReturn_t result = nvml->nvmlEventSetWait_v2(nvml->events, &data, 0);

		if (result != NVML_SUCCESS) {
			/* NVML_ERROR_TIMEOUT: there are no more. A lost device may end the others'
			 * events, too; that it does not answer is detected elsewhere. */
			break;
		}
		for (uint32_t i = 0; i < count; i++)
			if (befalls(nvml, &data, i))
				out[n++] = (struct nvml_event){
					.index = i,
					.news = data.eventType == nvmlEventTypeXidCriticalError
							? NVML_NEWS_XID
							: NVML_NEWS_ECC,
					.xid = data.eventData,
				};
	}
	*ret_count = n;
	return r;
}

/* Is `part` still the device? Its place in the GPU may have been given to another part. */
static bool is_part(const struct nvml *nvml, nvmlDevice_t part, const struct nvml_device *device)
{
	unsigned int gpu_instance = 0, compute_instance = 0;
	char uuid[sizeof(device->uuid_text)];

	return nvml->nvmlDeviceGetUUID(part, uuid, sizeof(uuid)) == NVML_SUCCESS &&
	       strcmp(uuid, device->uuid_text) == 0 &&
	       nvml->nvmlDeviceGetGpuInstanceId(part, &gpu_instance) == NVML_SUCCESS &&
	       nvml->nvmlDeviceGetComputeInstanceId(part, &compute_instance) == NVML_SUCCESS &&
	       (int)gpu_instance == device->gpu_instance &&
	       (int)compute_instance == device->compute_instance;
}

/* A part that was destroyed and recreated has the same UUID, but another handle. */
static bool find_again(struct nvml *nvml, uint32_t index)
{
	nvmlDevice_t gpu = nvml->gpus[index], part;
	unsigned int most = 0;

	if (!nvml_is_divided(nvml, gpu) ||
	    nvml->nvmlDeviceGetMaxMigDeviceCount(gpu, &most) != NVML_SUCCESS)
		return false;
	for (unsigned int i = 0; i < most; i++) {
		if (!nvml_find_part(nvml, gpu, i, &part) ||
		    !is_part(nvml, part, &nvml->devices[index]))
			continue;
		nvml_set_handle(nvml, index, part);
		return true;
	}
	return false;
}

bool nvml_answers(struct nvml *nvml, uint32_t index)
{
	bool divided = nvml->devices[index].gpu_instance >= 0;
	nvmlMemory_t memory;

	/* An unknown MIG mode is no reason to remove a GPU. */
	if (divided ? !find_again(nvml, index) : nvml_is_divided(nvml, nvml->gpus[index]))
		return false;
	return nvml->nvmlDeviceGetMemoryInfo(nvml_handle(nvml, index), &memory) !=
	       NVML_ERROR_GPU_IS_LOST;
}
