/* SPDX-License-Identifier: Apache-2.0 */
/* NVML's functions about one device that need no state: nvml_values.def, and those of other shapes.
 */
#include <string.h>

#include "cuda/nvml_prototypes.h"
#include "sim/machine/clock.h"
#include "sim/machine/device.h"
#include "sim/machine/engine.h"
#include "sim/nvml/nvml.h"

static nvmlDeviceArchitecture_t architecture(int number)
{
	uint32_t major = device_shape(number)->capability_major;
	uint32_t minor = device_shape(number)->capability_minor;

	switch (major) {
	case 6:
		return NVML_DEVICE_ARCH_PASCAL;
	case 7:
		return minor >= 5 ? NVML_DEVICE_ARCH_TURING : NVML_DEVICE_ARCH_VOLTA;
	case 8:
		return minor == 9 ? NVML_DEVICE_ARCH_ADA : NVML_DEVICE_ARCH_AMPERE;
	case 9:
		return NVML_DEVICE_ARCH_HOPPER;
	case 10:
	case 11:
	case 12:
		return NVML_DEVICE_ARCH_BLACKWELL;
	default:
		return NVML_DEVICE_ARCH_UNKNOWN;
	}
}

static nvmlBrandType_t brand(int number)
{
	const char *name = device_shape(number)->name;

	if (strstr(name, "GeForce"))
		return NVML_BRAND_GEFORCE;
	return strncmp(name, "Tesla", 5) == 0 ? NVML_BRAND_TESLA : NVML_BRAND_NVIDIA;
}

static unsigned long long clock_reasons(int number)
{
	return nvml_busy(number) ? nvmlClocksEventReasonNone : nvmlClocksEventReasonGpuIdle;
}

/* Idle power all the time, the rest while kernels ran; watts times nanoseconds are 1e-6 mJ. */
static unsigned long long energy_mj(int number)
{
	uint64_t watt = device_shape(number)->power_watt;
	uint64_t busy_us = engine_device_busy_ns(number, SEGMENT_COMPUTE) / 1000;

	return (clock_now_ns() / 1000 * watt / 10 + busy_us * watt * 9 / 10) / 1000;
}

/* Megabits per second of a lane, from NVML's constant for it, which so far is the generation's
 * number. */
static unsigned int pcie_mbps(unsigned int speed)
{
	switch (speed) {
	case NVML_PCIE_LINK_MAX_SPEED_2500MBPS:
		return 2500;
	case NVML_PCIE_LINK_MAX_SPEED_5000MBPS:
		return 5000;
	case NVML_PCIE_LINK_MAX_SPEED_8000MBPS:
		return 8000;
	case NVML_PCIE_LINK_MAX_SPEED_16000MBPS:
		return 16000;
	case NVML_PCIE_LINK_MAX_SPEED_32000MBPS:
		return 32000;
	case NVML_PCIE_LINK_MAX_SPEED_64000MBPS:
		return 64000;
	default:
		return 0;
	}
}

#define VALUE(symbol, type, value)                                                                 \
	nvmlReturn_t symbol(nvmlDevice_t device, type *ret)                                        \
	{                                                                                          \
		int n;                                                                             \
		nvmlReturn_t r = nvml_device(device, &n);                                          \
		const struct settings_device *shape;                                               \
                                                                                                   \
		if (r != NVML_SUCCESS)                                                             \
			return r;                                                                  \
		if (!ret)                                                                          \
			return NVML_ERROR_INVALID_ARGUMENT;                                        \
		shape = device_shape(n);                                                           \
		(void)shape;                                                                       \
		*ret = (value);                                                                    \
		return NVML_SUCCESS;                                                               \
	}
#define PAIR(symbol, type, value, second_type, second_value)                                       \
	nvmlReturn_t symbol(nvmlDevice_t device, type *ret, second_type *ret_second)               \
	{                                                                                          \
		int n;                                                                             \
		nvmlReturn_t r = nvml_device(device, &n);                                          \
		const struct settings_device *shape;                                               \
                                                                                                   \
		if (r != NVML_SUCCESS)                                                             \
			return r;                                                                  \
		if (!ret || !ret_second)                                                           \
			return NVML_ERROR_INVALID_ARGUMENT;                                        \
		shape = device_shape(n);                                                           \
		(void)shape;                                                                       \
		*ret = (value);                                                                    \
		*ret_second = (second_value);                                                      \
		return NVML_SUCCESS;                                                               \
	}
#define TEXT(symbol, text)                                                                         \
	nvmlReturn_t symbol(nvmlDevice_t device, char *to, unsigned int length)                    \
	{                                                                                          \
		int n;                                                                             \
		nvmlReturn_t r = nvml_device(device, &n);                                          \
		const struct settings_device *shape;                                               \
                                                                                                   \
		if (r != NVML_SUCCESS)                                                             \
			return r;                                                                  \
		shape = device_shape(n);                                                           \
		(void)shape;                                                                       \
		return nvml_text(to, length, text);                                                \
	}
#define LACKS(symbol, type)                                                                        \
	nvmlReturn_t symbol(nvmlDevice_t device, type *ret)                                        \
	{                                                                                          \
		int n;                                                                             \
		nvmlReturn_t r = nvml_device(device, &n);                                          \
                                                                                                   \
		if (r != NVML_SUCCESS)                                                             \
			return r;                                                                  \
		return ret ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;               \
	}
#include "sim/nvml/nvml_values.def"
#undef VALUE
#undef PAIR
#undef TEXT
#undef LACKS

/* ---- clocks -------------------------------------------------------------------------------- */

static nvmlReturn_t clock_of(nvmlDevice_t device, nvmlClockType_t type, unsigned int *ret_mhz)
{
	int n;
	nvmlReturn_t r = nvml_device(device, &n);

	if (r != NVML_SUCCESS)
		return r;
	if (!ret_mhz || (unsigned)type >= NVML_CLOCK_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_mhz = type == NVML_CLOCK_MEM ? device_shape(n)->memory_clock_mhz
					  : device_shape(n)->clock_mhz;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type, unsigned int *clock)
{
	return clock_of(device, type, clock);
}

nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, nvmlClockType_t type,
				       unsigned int *clock)
{
	return clock_of(device, type, clock);
}

nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, nvmlClockType_t type,
					    unsigned int *clock)
{
	return clock_of(device, type, clock);
}

nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(nvmlDevice_t device, nvmlClockType_t type,
						   unsigned int *clock)
{
	return clock_of(device, type, clock);
}

nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, nvmlClockType_t type, nvmlClockId_t id,
				unsigned int *clock)
{
	if ((unsigned)id >= NVML_CLOCK_ID_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	return clock_of(device, type, clock);
}

static nvmlReturn_t only_clock(nvmlDevice_t device, nvmlClockType_t type, unsigned int *count,
			       unsigned int *clocks)
{
	unsigned int mhz, room;
	nvmlReturn_t r = clock_of(device, type, &mhz);

	if (r != NVML_SUCCESS)
		return r;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	room = *count;
	*count = 1;
	if (!clocks || !room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	clocks[0] = mhz;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(nvmlDevice_t device, unsigned int *count,
						unsigned int *clocks)
{
	return only_clock(device, NVML_CLOCK_MEM, count, clocks);
}

nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(nvmlDevice_t device, unsigned int memory_clock,
						  unsigned int *count, unsigned int *clocks)
{
	unsigned int mhz;
	nvmlReturn_t r = clock_of(device, NVML_CLOCK_MEM, &mhz);

	if (r == NVML_SUCCESS && mhz != memory_clock)
		return NVML_ERROR_NOT_FOUND;
	return r == NVML_SUCCESS ? only_clock(device, NVML_CLOCK_GRAPHICS, count, clocks) : r;
}

/* ---- warmth -------------------------------------------------------------------------------- */

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
				      unsigned int *temperature)
{
	int n;
	nvmlReturn_t r = nvml_device(device, &n);

	if (r != NVML_SUCCESS)
		return r;
	if (!temperature || sensor != NVML_TEMPERATURE_GPU)
		return NVML_ERROR_INVALID_ARGUMENT;
	*temperature = nvml_temperature(n);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperature)
{
	unsigned int value = 0;
	nvmlReturn_t r;

	if (!temperature)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (temperature->version != NVML_STRUCT_VERSION(Temperature, 1))
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	r = nvmlDeviceGetTemperature(device, temperature->sensorType, &value);
	if (r == NVML_SUCCESS)
		temperature->temperature = (int)value;
	return r;
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device,
					       nvmlTemperatureThresholds_t threshold,
					       unsigned int *temperature)
{
	static const unsigned int degrees[NVML_TEMPERATURE_THRESHOLD_COUNT] = {
		[NVML_TEMPERATURE_THRESHOLD_SHUTDOWN] = 95,
		[NVML_TEMPERATURE_THRESHOLD_SLOWDOWN] = 92,
		[NVML_TEMPERATURE_THRESHOLD_MEM_MAX] = 95,
		[NVML_TEMPERATURE_THRESHOLD_GPU_MAX] = 87,
	};
	int n;
	nvmlReturn_t r = nvml_device(device, &n);

	if (r != NVML_SUCCESS)
		return r;
	if (!temperature || (unsigned)threshold >= NVML_TEMPERATURE_THRESHOLD_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!degrees[threshold])
		return NVML_ERROR_NOT_SUPPORTED;
	*temperature = degrees[threshold];
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetFanSpeed_v2(nvmlDevice_t device, unsigned int fan, unsigned int *speed)
{
	(void)fan;
	return nvmlDeviceGetFanSpeed(device, speed);
}

/* ---- errors -------------------------------------------------------------------------------- */

nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
					 nvmlEccCounterType_t counter, unsigned long long *count)
{
	struct segment_device *book;
	int n;
	nvmlReturn_t r = nvml_device(device, &n);

	if (r != NVML_SUCCESS)
		return r;
	if (!count || (unsigned)type >= NVML_MEMORY_ERROR_TYPE_COUNT ||
	    (unsigned)counter >= NVML_ECC_COUNTER_TYPE_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	book = &segment_get()->devices[n];
	segment_lock(book);
	*count = type == NVML_MEMORY_ERROR_TYPE_CORRECTED ? book->ecc_corrected
							  : book->ecc_uncorrected;
	segment_unlock(book);
	return NVML_SUCCESS;
}

/* All errors are device memory's. */
nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(nvmlDevice_t device, nvmlMemoryErrorType_t type,
					     nvmlEccCounterType_t counter,
					     nvmlMemoryLocation_t location,
					     unsigned long long *count)
{
	nvmlReturn_t r = nvmlDeviceGetTotalEccErrors(device, type, counter, count);

	if (r != NVML_SUCCESS)
		return r;
	if ((unsigned)location >= NVML_MEMORY_LOCATION_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (location != NVML_MEMORY_LOCATION_DEVICE_MEMORY)
		*count = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, nvmlPageRetirementCause_t cause,
				       unsigned int *count, unsigned long long *addresses)
{
	int n;
	nvmlReturn_t r = nvml_device(device, &n);

	(void)addresses;
	if (r != NVML_SUCCESS)
		return r;
	if (!count || (unsigned)cause >= NVML_PAGE_RETIREMENT_CAUSE_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *corrected,
				       unsigned int *uncorrected, unsigned int *pending,
				       unsigned int *failed)
{
	int n;
	nvmlReturn_t r = nvml_device(device, &n);

	if (r != NVML_SUCCESS)
		return r;
	if (!corrected || !uncorrected || !pending || !failed)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (device_shape(n)->capability_major < 8)
		return NVML_ERROR_NOT_SUPPORTED;
	*corrected = *uncorrected = *pending = *failed = 0;
	return NVML_SUCCESS;
}
