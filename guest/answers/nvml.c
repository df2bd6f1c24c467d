/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/answers/nvml.h"
#include "guest/process/join.h"

#include <stdatomic.h>
#include <string.h>

#include "base/text.h"
#include "guest/credit/view.h"
#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/process/parts.h"
#include "guest/process/state.h"

enum {
	HANDLES = 64, /* the most that are remembered */
	MIB = 1 << 20,
};

/* NVML's handles live as long as the library is loaded: a handle and its device in one word. */
static struct {
	_Atomic uint64_t known[HANDLES];
	/* Whole GPUs of others, with the number of devices that the tenant had then: valid until it
	 * gets more. */
	_Atomic uint64_t foreign[HANDLES];
} nvml;

#define PACK(handle, index) ((uint64_t)(uintptr_t)(handle) << 6 | (uint64_t)((index) + 1))

/* "GPU-" or "MIG-" and 32 digits, grouped by dashes. */
static bool parse_uuid(const char *text, uint8_t uuid[16])
{
	int digits = 0;

	if (strncmp(text, "GPU-", 4) != 0 && strncmp(text, "MIG-", 4) != 0)
		return false;
	for (text += 4; *text && digits < 32; text++) {
		int value = text_hex(*text);

		if (*text == '-')
			continue;
		if (value < 0)
			return false;
		uuid[digits / 2] = (uint8_t)(digits % 2 ? uuid[digits / 2] | value : value << 4);
		digits++;
	}
	return digits == 32 && *text == '\0';
}

static int find_device(nvmlDevice_t device)
{
	char text[NVML_DEVICE_UUID_BUFFER_SIZE];
	uint8_t uuid[16];

	if (real_nvml(nvmlDeviceGetUUID)(device, text, sizeof(text)) != NVML_SUCCESS ||
	    !parse_uuid(text, uuid))
		return -1;
	for (uint32_t i = 0; i < atomic_load(&state.devices); i++)
		if (memcmp(state.device[i].uuid, uuid, sizeof(uuid)) == 0)
			return (int)i;
	return -1;
}

/* The first word of the handle, or NULL. Words are never removed. */
static _Atomic uint64_t *find(_Atomic uint64_t *words, nvmlDevice_t device)
{
	for (int i = 0; i < HANDLES; i++) {
		uint64_t word = atomic_load(&words[i]);

		if (word == 0)
			break;
		if (word >> 6 == (uint64_t)(uintptr_t)device)
			return &words[i];
	}
	return NULL;
}

/* Without room nothing is stored, and the handle is looked up each time. */
static void remember(_Atomic uint64_t *words, nvmlDevice_t device, int value)
{
	_Atomic uint64_t *at = find(words, device);
	uint64_t word;

	if (at)
		atomic_store(at, PACK(device, value));
	for (int i = 0; i < HANDLES && !at; i++) {
		word = 0;
		if (atomic_compare_exchange_strong(&words[i], &word, PACK(device, value)))
			break;
	}
}

static bool is_foreign(nvmlDevice_t device)
{
	_Atomic uint64_t *at = find(nvml.foreign, device);

	return at && (atomic_load(at) & 63) - 1 == atomic_load(&state.devices);
}

void nvml_remember_foreign(nvmlDevice_t device)
{
	remember(nvml.foreign, device, (int)atomic_load(&state.devices));
}

int nvml_own(nvmlDevice_t device)
{
	_Atomic uint64_t *at = find(nvml.known, device);
	int index;

	if (at)
		return (int)(atomic_load(at) & 63) - 1;
	if (is_foreign(device))
		return NVML_FOREIGN;
	index = find_device(device);
	if (index >= 0)
		remember(nvml.known, device, index);
	return index;
}

nvmlReturn_t nvml_device(nvmlDevice_t device, int *ret_index)
{
	int index;

	*ret_index = -1;
	if (state_ready() != CUDA_SUCCESS)
		return NVML_ERROR_UNKNOWN;
	if (!state_joined())
		return NVML_SUCCESS;
	index = nvml_own(device);
	*ret_index = index >= 0 && atomic_load(&state.device[index].gone) ? -1 : index;
	if (*ret_index >= 0 && guest_tenant_page.observes)
		*ret_index = NVML_WHOLE;
	return NVML_SUCCESS;
}

bool nvml_foreign(int index)
{
	return index < 0 && index != NVML_WHOLE && state_joined();
}

/* Clears an answer about a device of others. */
static nvmlReturn_t begin(nvmlReturn_t r, nvmlDevice_t device, int *ret_index, void *answer,
			  size_t bytes)
{
	if (r == NVML_SUCCESS)
		r = nvml_device(device, ret_index);
	if (r != NVML_SUCCESS || !nvml_foreign(*ret_index))
		return r;
	memset(answer, 0, bytes);
	return NVML_ERROR_NO_PERMISSION;
}

/* Begins an answer: with the real function's error, or with the device. */
#define BEGIN(device, index, answer, call) begin(call, device, index, answer, sizeof(*(answer)))

static void answer_memory(int index, nvmlMemory_t *memory)
{
	struct view_memory seen;

	view_memory(index, memory->total, &seen);
	memory->total = seen.total;
	memory->free = seen.free;
	memory->used = seen.total - seen.free;
}

nvmlReturn_t hook_nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	int index = -1;
	nvmlReturn_t r =
		BEGIN(device, &index, memory, real_nvml(nvmlDeviceGetMemoryInfo)(device, memory));

	if (r != NVML_SUCCESS || index < 0)
		return r;
	answer_memory(index, memory);
	return r;
}

/* The limit belongs to the tenant entirely: no part is reserved for the driver. */
nvmlReturn_t hook_nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	struct view_memory seen;
	int index = -1;
	nvmlReturn_t r = BEGIN(device, &index, memory,
			       real_nvml(nvmlDeviceGetMemoryInfo_v2)(device, memory));

	if (r != NVML_SUCCESS || index < 0)
		return r;
	view_memory(index, memory->total, &seen);
	if (seen.total < memory->total)
		memory->reserved = 0;
	memory->total = seen.total;
	memory->free = seen.free;
	memory->used = seen.total - seen.free;
	if (memory->used >= memory->reserved)
		memory->used -= memory->reserved;
	return r;
}

nvmlReturn_t hook_nvmlDeviceGetConfComputeProtectedMemoryUsage(nvmlDevice_t device,
							       nvmlMemory_t *memory)
{
	int index = -1;
	nvmlReturn_t r =
		BEGIN(device, &index, memory,
		      real_nvml(nvmlDeviceGetConfComputeProtectedMemoryUsage)(device, memory));

	if (r != NVML_SUCCESS || index < 0 || memory->total == 0)
		return r;
	answer_memory(index, memory);
	return r;
}

static nvmlReturn_t attributes(nvmlDevice_t device, nvmlDeviceAttributes_t *seen_attributes,
			       nvmlReturn_t r)
{
	int index = -1;

	if (r == NVML_SUCCESS)
		r = nvml_device(device, &index);
	if (r != NVML_SUCCESS || index < 0)
		return r;
	seen_attributes->memorySizeMB =
		view_total(index, seen_attributes->memorySizeMB * MIB) / MIB;
	return r;
}

nvmlReturn_t hook_nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes_)
{
	return attributes(device, attributes_,
			  real_nvml(nvmlDeviceGetAttributes)(device, attributes_));
}

nvmlReturn_t hook_nvmlDeviceGetAttributes_v2(nvmlDevice_t device,
					     nvmlDeviceAttributes_t *attributes_)
{
	return attributes(device, attributes_,
			  real_nvml(nvmlDeviceGetAttributes_v2)(device, attributes_));
}

nvmlReturn_t hook_nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization)
{
	nvmlUtilization_t own;
	int index = -1;
	nvmlReturn_t r = BEGIN(device, &index, utilization,
			       real_nvml(nvmlDeviceGetUtilizationRates)(device, utilization));

	/* If the tenant is alone, all use of the device is its own. */
	if (r != NVML_SUCCESS || index < 0 || state_page(index, rivals) == 0)
		return r;
	if (nvml_utilization(device, index, &own) == NVML_SUCCESS)
		*utilization = own;
	return r;
}

/* With other tenants, only our own use; the use of video engines and of the bus is not known by
 * process. */
nvmlReturn_t hook_nvmlDeviceGetDynamicPstatesInfo(nvmlDevice_t device,
						  nvmlGpuDynamicPstatesInfo_t *pDynamicPstatesInfo)
{
	nvmlGpuDynamicPstatesInfo_t *info = pDynamicPstatesInfo;
	nvmlUtilization_t own;
	int index = -1;
	nvmlReturn_t r = BEGIN(device, &index, info,
			       real_nvml(nvmlDeviceGetDynamicPstatesInfo)(device, info));

	if (r != NVML_SUCCESS || index < 0 || state_page(index, rivals) == 0)
		return r;
	if (nvml_utilization(device, index, &own) != NVML_SUCCESS) {
		memset(info, 0, sizeof(*info));
		return NVML_ERROR_NOT_SUPPORTED;
	}
	info->utilization[0].percentage = own.gpu;
	info->utilization[1].percentage = own.memory;
	for (int i = 2; i < NVML_MAX_GPU_UTILIZATIONS; i++)
		memset(&info->utilization[i], 0, sizeof(info->utilization[i]));
	return r;
}

static bool is_utilization(nvmlSamplingType_t type)
{
	return type == NVML_GPU_UTILIZATION_SAMPLES || type == NVML_MEMORY_UTILIZATION_SAMPLES ||
	       type == NVML_ENC_UTILIZATION_SAMPLES || type == NVML_DEC_UTILIZATION_SAMPLES ||
	       type == NVML_JPG_UTILIZATION_SAMPLES || type == NVML_OFA_UTILIZATION_SAMPLES;
}

/* The tenant's use of the device, by the kind of samples. */
static unsigned own_use(const nvmlUtilization_t *own, nvmlSamplingType_t type)
{
	if (type == NVML_GPU_UTILIZATION_SAMPLES)
		return own->gpu;
	return type == NVML_MEMORY_UTILIZATION_SAMPLES ? own->memory : 0;
}

static void lower_samples(nvmlSample_t *samples, unsigned count, unsigned most)
{
	for (unsigned i = 0; i < count; i++)
		if (samples[i].sampleValue.uiVal > most)
			samples[i].sampleValue.uiVal = most;
}

/* Samples of the device's past cover all tenants together: they are lowered to our own recent use.
 * Temperatures, clocks and power are the device's own. */
nvmlReturn_t hook_nvmlDeviceGetSamples(nvmlDevice_t device, nvmlSamplingType_t type,
				       unsigned long long lastSeenTimeStamp,
				       nvmlValueType_t *sampleValType, unsigned int *sampleCount,
				       nvmlSample_t *samples)
{
	nvmlUtilization_t own;
	int index = -1;
	nvmlReturn_t r = real_nvml(nvmlDeviceGetSamples)(device, type, lastSeenTimeStamp,
							 sampleValType, sampleCount, samples);

	if (r == NVML_SUCCESS)
		r = nvml_device(device, &index);
	if (r == NVML_SUCCESS && nvml_foreign(index) && samples && is_utilization(type)) {
		memset(samples, 0, *sampleCount * sizeof(*samples));
		*sampleCount = 0;
		return NVML_ERROR_NO_PERMISSION;
	}
	if (r != NVML_SUCCESS || index < 0 || !samples || !is_utilization(type) ||
	    state_page(index, rivals) == 0 || *sampleValType != NVML_VALUE_TYPE_UNSIGNED_INT)
		return r;
	if (nvml_utilization(device, index, &own) != NVML_SUCCESS)
		return NVML_ERROR_NOT_SUPPORTED;
	lower_samples(samples, *sampleCount, own_use(&own, type));
	return r;
}

/* The fields are counters, clocks, power and links: none is about memory or other tenants. */
nvmlReturn_t hook_nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount,
					   nvmlFieldValue_t *values)
{
	return real_nvml(nvmlDeviceGetFieldValues)(device, valuesCount, values);
}

void nvml_forget(void)
{
	memset(&nvml, 0, sizeof(nvml));
}
