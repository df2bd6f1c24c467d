/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/nvml/nvidia_smi_columns.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cuda/nvml_prototypes.h"

static bool number(nvmlReturn_t r, char *text, double value, int digits)
{
	snprintf(text, SMI_TEXT_BYTES, "%.*f", digits, value);
	return r == NVML_SUCCESS;
}

static bool word(nvmlReturn_t r, char *text, const char *value)
{
	snprintf(text, SMI_TEXT_BYTES, "%s", value);
	return r == NVML_SUCCESS;
}

static bool write_index(nvmlDevice_t device, char *text)
{
	unsigned int index = 0;
	nvmlReturn_t r = nvmlDeviceGetIndex(device, &index);

	return number(r, text, index, 0);
}

static bool write_uuid(nvmlDevice_t device, char *text)
{
	return nvmlDeviceGetUUID(device, text, SMI_TEXT_BYTES) == NVML_SUCCESS;
}

static bool write_name(nvmlDevice_t device, char *text)
{
	return nvmlDeviceGetName(device, text, SMI_TEXT_BYTES) == NVML_SUCCESS;
}

static bool write_count(nvmlDevice_t device, char *text)
{
	unsigned int count = 0;

	(void)device;
	nvmlReturn_t r = nvmlDeviceGetCount_v2(&count);

	return number(r, text, count, 0);
}

static bool write_timestamp(nvmlDevice_t device, char *text)
{
	time_t now = time(NULL);
	struct tm local;

	(void)device;
	localtime_r(&now, &local);
	return strftime(text, SMI_TEXT_BYTES, "%Y/%m/%d %H:%M:%S.000", &local) > 0;
}

static bool write_driver(nvmlDevice_t device, char *text)
{
	(void)device;
	return nvmlSystemGetDriverVersion(text, SMI_TEXT_BYTES) == NVML_SUCCESS;
}

static bool write_serial(nvmlDevice_t device, char *text)
{
	return nvmlDeviceGetSerial(device, text, SMI_TEXT_BYTES) == NVML_SUCCESS;
}

static bool write_bus_id(nvmlDevice_t device, char *text)
{
	nvmlPciInfo_t pci = {0};
	nvmlReturn_t r = nvmlDeviceGetPciInfo_v3(device, &pci);

	return word(r, text, pci.busId);
}

static bool write_capability(nvmlDevice_t device, char *text)
{
	int major = 0, minor = 0;
	nvmlReturn_t r = nvmlDeviceGetCudaComputeCapability(device, &major, &minor);

	snprintf(text, SMI_TEXT_BYTES, "%d.%d", major, minor);
	return r == NVML_SUCCESS;
}

static nvmlReturn_t memory_of(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	memset(memory, 0, sizeof(*memory));
	memory->version = NVML_STRUCT_VERSION(Memory, 2);
	return nvmlDeviceGetMemoryInfo_v2(device, memory);
}

#define MEMORY_WRITER(function, field)                                                             \
	static bool function(nvmlDevice_t device, char *text)                                      \
	{                                                                                          \
		nvmlMemory_v2_t memory;                                                            \
		nvmlReturn_t r = memory_of(device, &memory);                                       \
                                                                                                   \
		return number(r, text, (double)(memory.field >> 20), 0);                           \
	}
MEMORY_WRITER(write_memory_total, total)
MEMORY_WRITER(write_memory_used, used)
MEMORY_WRITER(write_memory_free, free)
MEMORY_WRITER(write_memory_reserved, reserved)

#define UTILISATION_WRITER(function, field)                                                        \
	static bool function(nvmlDevice_t device, char *text)                                      \
	{                                                                                          \
		nvmlUtilization_t rates = {0};                                                     \
		nvmlReturn_t r = nvmlDeviceGetUtilizationRates(device, &rates);                    \
                                                                                                   \
		return number(r, text, rates.field, 0);                                            \
	}
UTILISATION_WRITER(write_utilisation, gpu)
UTILISATION_WRITER(write_utilisation_memory, memory)

static bool write_temperature(nvmlDevice_t device, char *text)
{
	unsigned int value = 0;
	nvmlReturn_t r = nvmlDeviceGetTemperature(device, NVML_TEMPERATURE_GPU, &value);

	return number(r, text, value, 0);
}

static bool write_power(nvmlDevice_t device, char *text)
{
	unsigned int value = 0;
	nvmlReturn_t r = nvmlDeviceGetPowerUsage(device, &value);

	return number(r, text, value / 1000.0, 2);
}

static bool write_power_limit(nvmlDevice_t device, char *text)
{
	unsigned int value = 0;
	nvmlReturn_t r = nvmlDeviceGetEnforcedPowerLimit(device, &value);

	return number(r, text, value / 1000.0, 2);
}

static bool clock_of(nvmlDevice_t device, nvmlClockType_t type, char *text)
{
	unsigned int value = 0;
	nvmlReturn_t r = nvmlDeviceGetClockInfo(device, type, &value);

	return number(r, text, value, 0);
}

static bool write_clock(nvmlDevice_t device, char *text)
{
	return clock_of(device, NVML_CLOCK_SM, text);
}

static bool write_memory_clock(nvmlDevice_t device, char *text)
{
	return clock_of(device, NVML_CLOCK_MEM, text);
}

static bool write_pstate(nvmlDevice_t device, char *text)
{
	nvmlPstates_t state = NVML_PSTATE_UNKNOWN;
	nvmlReturn_t r = nvmlDeviceGetPerformanceState(device, &state);

	snprintf(text, SMI_TEXT_BYTES, "P%d", (int)state);
	return r == NVML_SUCCESS;
}

static bool write_fan(nvmlDevice_t device, char *text)
{
	unsigned int value = 0;
	nvmlReturn_t r = nvmlDeviceGetFanSpeed(device, &value);

	return number(r, text, value, 0);
}

static bool enabled(nvmlReturn_t r, char *text, nvmlEnableState_t state)
{
	return word(r, text, state == NVML_FEATURE_ENABLED ? "Enabled" : "Disabled");
}

static bool write_display(nvmlDevice_t device, char *text)
{
	nvmlEnableState_t state = NVML_FEATURE_DISABLED;
	nvmlReturn_t r = nvmlDeviceGetDisplayActive(device, &state);

	return enabled(r, text, state);
}

static bool write_persistence(nvmlDevice_t device, char *text)
{
	nvmlEnableState_t state = NVML_FEATURE_DISABLED;
	nvmlReturn_t r = nvmlDeviceGetPersistenceMode(device, &state);

	return enabled(r, text, state);
}

static bool write_compute_mode(nvmlDevice_t device, char *text)
{
	static const char *const modes[] = {"Default", "Exclusive_Thread", "Prohibited",
					    "Exclusive_Process"};
	nvmlComputeMode_t mode = NVML_COMPUTEMODE_DEFAULT;
	nvmlReturn_t r = nvmlDeviceGetComputeMode(device, &mode);

	return word(r, text, (size_t)mode < ARRAY_SIZE(modes) ? modes[mode] : "?");
}

static bool write_mig(nvmlDevice_t device, char *text)
{
	unsigned int current = 0, pending = 0;
	nvmlReturn_t r = nvmlDeviceGetMigMode(device, &current, &pending);

	return word(r, text, current ? "Enabled" : "Disabled");
}

static bool write_ecc(nvmlDevice_t device, char *text)
{
	nvmlEnableState_t current = NVML_FEATURE_DISABLED, pending;
	nvmlReturn_t r = nvmlDeviceGetEccMode(device, &current, &pending);

	return enabled(r, text, current);
}

static bool ecc_errors(nvmlDevice_t device, nvmlMemoryErrorType_t type, char *text)
{
	unsigned long long count = 0;
	nvmlReturn_t r = nvmlDeviceGetTotalEccErrors(device, type, NVML_VOLATILE_ECC, &count);

	return number(r, text, (double)count, 0);
}

static bool write_ecc_corrected(nvmlDevice_t device, char *text)
{
	return ecc_errors(device, NVML_MEMORY_ERROR_TYPE_CORRECTED, text);
}

static bool write_ecc_uncorrected(nvmlDevice_t device, char *text)
{
	return ecc_errors(device, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, text);
}

static const struct smi_column columns[] = {
#define FIELD(name, unit, write) {name, unit, write},
#include "sim/nvml/nvidia_smi.def"
#undef FIELD
};

const struct smi_column *smi_column(size_t number)
{
	return number < ARRAY_SIZE(columns) ? &columns[number] : NULL;
}

const struct smi_column *smi_column_named(const char *name, size_t length)
{
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		if (strlen(columns[i].name) == length && !memcmp(columns[i].name, name, length))
			return &columns[i];
	return NULL;
}

bool smi_write(const char *column, nvmlDevice_t device, char *text)
{
	return smi_column_named(column, strlen(column))->write(device, text);
}
