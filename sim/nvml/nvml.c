/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/nvml/nvml.h"

#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "cuda/nvml_prototypes.h"
#include "sim/machine/clock.h"
#include "sim/machine/device.h"
#include "sim/machine/engine.h"

/* Handles are addresses: they stand for a place, and for the generation of its part. */
struct nvmlDevice_st {
	char any;
};

static struct {
	_Atomic unsigned int count; /* calls of nvmlInit() without nvmlShutdown() */
	struct nvmlDevice_st devices[SEGMENT_PLACES * NVML_MADE];
} nvml;

/* ---- beginning and end --------------------------------------------------------------------- */

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	if (flags & ~(unsigned)(NVML_INIT_FLAG_NO_GPUS | NVML_INIT_FLAG_NO_ATTACH))
		return NVML_ERROR_INVALID_ARGUMENT;
	if (segment_join() < 0)
		return NVML_ERROR_DRIVER_NOT_LOADED;
	atomic_fetch_add(&nvml.count, 1);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit_v2(void)
{
	return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlInit(void)
{
	return nvmlInitWithFlags(0);
}

/* The process stays on the node: the next nvmlInit() is not the first of a node of its own. */
nvmlReturn_t nvmlShutdown(void)
{
	unsigned int count = atomic_load(&nvml.count);

	do {
		if (!count)
			return NVML_ERROR_UNINITIALIZED;
	} while (!atomic_compare_exchange_weak(&nvml.count, &count, count - 1));
	return NVML_SUCCESS;
}

nvmlReturn_t nvml_ready(void)
{
	if (!atomic_load_explicit(&nvml.count, memory_order_acquire))
		return NVML_ERROR_UNINITIALIZED;
	return segment_self() ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

nvmlDevice_t nvml_handle(int number)
{
	return &nvml.devices[(uint32_t)number * NVML_MADE + nvml_made(number)];
}

static bool is_there(int place)
{
	return parts_is_part((uint32_t)place) ? !device_is_gone(place) : place < device_count();
}

nvmlReturn_t nvml_known(nvmlDevice_t device, int *ret_place)
{
	nvmlReturn_t r = nvml_ready();
	uintptr_t offset = (uintptr_t)device - (uintptr_t)nvml.devices;
	int place = (int)(offset / NVML_MADE);

	if (r != NVML_SUCCESS)
		return r;
	if (offset >= ARRAY_SIZE(nvml.devices) || !is_there(place) ||
	    offset % NVML_MADE != nvml_made(place))
		return NVML_ERROR_INVALID_ARGUMENT;
	*ret_place = place;
	return NVML_SUCCESS;
}

nvmlReturn_t nvml_device_or_part(nvmlDevice_t device, int *ret_place)
{
	nvmlReturn_t r = nvml_known(device, ret_place);

	if (r == NVML_SUCCESS && device_is_lost(*ret_place))
		return NVML_ERROR_GPU_IS_LOST;
	return r;
}

nvmlReturn_t nvml_device(nvmlDevice_t device, int *ret_number)
{
	nvmlReturn_t r = nvml_device_or_part(device, ret_number);

	return r == NVML_SUCCESS && parts_is_part((uint32_t)*ret_number)
		       ? NVML_ERROR_INVALID_ARGUMENT
		       : r;
}

nvmlReturn_t nvml_text(char *to, unsigned int size, const char *text)
{
	size_t need = strlen(text) + 1;

	if (!to)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (size < need)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memcpy(to, text, need);
	return NVML_SUCCESS;
}

nvmlReturn_t nvml_missing(const char *symbol)
{
	char text[160];
	int n;

	if (nvml_ready() != NVML_SUCCESS)
		return NVML_ERROR_UNINITIALIZED;
	if (segment_settings()->log) {
		n = snprintf(text, sizeof(text), "mete-sim: %s is not simulated\n", symbol);
		best_effort(write(STDERR_FILENO, text, (size_t)n));
	}
	return NVML_ERROR_NOT_SUPPORTED;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
	switch (result) {
#define NVML_RESULT(name, number, text)                                                            \
	case name:                                                                                 \
		return text;
#include "cuda/nvml_errors.def"
#undef NVML_RESULT
	}
	return "an error of no known kind";
}

/* ---- finding devices ----------------------------------------------------------------------- */

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count)
{
	nvmlReturn_t r = nvml_ready();

	if (r != NVML_SUCCESS)
		return r;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = (unsigned)device_count();
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount(unsigned int *count)
{
	return nvmlDeviceGetCount_v2(count);
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	nvmlReturn_t r = nvml_ready();

	if (r != NVML_SUCCESS)
		return r;
	if (!device || index >= (unsigned)device_count())
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = nvml_handle((int)index);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByIndex_v2(index, device);
}

/* "0000:17:00.0", "00000000:17:00.0" or "17:00.0" */
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device)
{
	unsigned int domain = 0, bus, slot, function = 0;
	nvmlReturn_t r = nvml_ready();

	if (r != NVML_SUCCESS)
		return r;
	if (!bus_id || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (sscanf(bus_id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
		domain = 0;
		if (sscanf(bus_id, "%x:%x.%x", &bus, &slot, &function) < 2)
			return NVML_ERROR_INVALID_ARGUMENT;
	}
	for (int i = 0; i < device_count(); i++) {
		if (domain == 0 && device_pci_bus(i) == bus && slot == 0 && function == 0) {
			*device = nvml_handle(i);
			return NVML_SUCCESS;
		}
	}
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByPciBusId_v2(bus_id, device);
}

static void serial_text(int number, char ret_text[16])
{
	uint8_t uuid[16];
	uint64_t value = 0;

	device_uuid(number, uuid);
	for (size_t i = 8; i < 16; i++)
		value = value << 8 | uuid[i];
	snprintf(ret_text, 16, "16%011llu", (unsigned long long)(value % 100000000000ULL));
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length)
{
	char text[16];
	int number;
	nvmlReturn_t r = nvml_device(device, &number);

	if (r != NVML_SUCCESS)
		return r;
	serial_text(number, text);
	return nvml_text(serial, length, text);
}

nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device)
{
	nvmlReturn_t r = nvml_ready();
	char text[16];

	if (r != NVML_SUCCESS)
		return r;
	if (!serial || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; i < device_count(); i++) {
		serial_text(i, text);
		if (strcmp(text, serial) == 0) {
			*device = nvml_handle(i);
			return NVML_SUCCESS;
		}
	}
	return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	int number;
	nvmlReturn_t r = nvml_known(device, &number);

	if (r != NVML_SUCCESS)
		return r;
	if (!index || parts_is_part((uint32_t)number))
		return NVML_ERROR_INVALID_ARGUMENT;
	*index = (unsigned)number;
	return NVML_SUCCESS;
}

/* ---- the system ---------------------------------------------------------------------------- */

/* The first driver of each CUDA version's release family. */
static const struct {
	unsigned int cuda;
	const char *driver;
} drivers[] = {
	{13040, "615.71.09"}, {13030, "610.43.02"}, {13020, "595.45.04"}, {13010, "590.44.01"},
	{13000, "580.65.06"}, {12090, "575.57.08"}, {12080, "570.86.10"}, {12060, "560.35.03"},
	{12040, "550.54.14"}, {12020, "535.54.03"}, {12000, "525.60.13"}, {11080, "520.61.05"},
	{11040, "470.42.01"}, {0, "450.36.06"},
};

static const char *driver_version(void)
{
	size_t i = 0;

	while (drivers[i].cuda > segment_settings()->driver)
		i++;
	return drivers[i].driver;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	nvmlReturn_t r = nvml_ready();

	return r == NVML_SUCCESS ? nvml_text(version, length, driver_version()) : r;
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
	nvmlReturn_t r = nvml_ready();
	char text[32];

	if (r != NVML_SUCCESS)
		return r;
	snprintf(text, sizeof(text), "%u.%s", (unsigned)(segment_settings()->driver / 1000),
		 driver_version());
	return nvml_text(version, length, text);
}

nvmlReturn_t nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_t *info, unsigned int length)
{
	nvmlReturn_t r = nvml_ready();
	char text[16];

	if (r != NVML_SUCCESS)
		return r;
	if (!info)
		return NVML_ERROR_INVALID_ARGUMENT;
	snprintf(text, sizeof(text), "r%.3s_00", driver_version());
	return nvml_text(info->branch,
			 length < sizeof(info->branch) ? length : sizeof(info->branch), text);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	nvmlReturn_t r = nvml_ready();

	if (r != NVML_SUCCESS)
		return r;
	if (!version)
		return NVML_ERROR_INVALID_ARGUMENT;
	*version = (int)segment_settings()->driver;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
	return nvmlSystemGetCudaDriverVersion_v2(version);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
	nvmlReturn_t r = nvml_ready();
	char path[32], text[1024];
	ssize_t n;

	if (r != NVML_SUCCESS)
		return r;
	if (!name || !length)
		return NVML_ERROR_INVALID_ARGUMENT;
	snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
	owned(close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NVML_ERROR_NOT_FOUND;
	n = read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return NVML_ERROR_NOT_FOUND;
	text[n] = 0;
	/* Cut if the buffer is too small, as by NVIDIA's. */
	snprintf(name, length, "%s", text);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlUnitGetCount(unsigned int *count)
{
	nvmlReturn_t r = nvml_ready();

	if (r != NVML_SUCCESS)
		return r;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*count = 0;
	return NVML_SUCCESS;
}

/* ---- what the others need ------------------------------------------------------------------ */

unsigned long long nvml_wall_us(uint64_t clock_ns)
{
	uint64_t ago_ns = (clock_now_ns() - clock_ns) * segment_settings()->dilate;
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return ((unsigned long long)now.tv_sec * 1000000000 + (unsigned long long)now.tv_nsec -
		ago_ns) /
	       1000;
}

unsigned nvml_busy(int number)
{
	return engine_utilisation(number, UINT32_MAX);
}

/* A tenth of the limit when idle, all of it when busy. */
unsigned nvml_power_mw(int number)
{
	return device_shape(number)->power_watt * (100 + 9 * nvml_busy(number));
}

unsigned nvml_temperature(int number)
{
	return 32 + nvml_busy(number) * 38 / 100;
}
