/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices that NVML shows: the tenant's, counted from 0, and the GPUs of which the tenant has a
 * part. The others do not exist for the program, as in a container that was not given their files.
 * They are also left out of answers about neighbouring devices.
 */
#include <stdatomic.h>
#include <string.h>

#include "guest/answers/nvml.h"
#include "guest/driver/real.h"
#include "guest/hooks.h"
#include "guest/process/join.h"
#include "guest/process/state.h"

enum { DEVICES = 64 /* the most devices of a machine */ };

/* Is there anything to hide? Joins the daemon. */
static nvmlReturn_t begin(bool *ret_hides)
{
	if (state_ready() != CUDA_SUCCESS)
		return NVML_ERROR_UNKNOWN;
	*ret_hides = state_joined();
	return NVML_SUCCESS;
}

static bool note(int index, uint64_t *found)
{
	if (index >= 0)
		*found |= UINT64_C(1) << index;
	return index >= 0;
}

/* Is it the tenant's, or does the tenant have parts of it? Adds their indices to *found. */
static bool is_own(nvmlDevice_t device, uint64_t *found)
{
	int index = nvml_own(device);
	bool own = note(index, found);
	unsigned parts = 0;
	nvmlDevice_t part;

	if (own || index == NVML_FOREIGN ||
	    real_nvml(nvmlDeviceGetMaxMigDeviceCount)(device, &parts) != NVML_SUCCESS)
		return own;
	if (parts == 0)
		nvml_remember_foreign(device);
	for (unsigned i = 0; i < parts; i++)
		if (real_nvml(nvmlDeviceGetMigDeviceHandleByIndex)(device, i, &part) ==
		    NVML_SUCCESS)
			own |= note(nvml_own(part), found);
	return own;
}

static bool visible(nvmlDevice_t device)
{
	uint64_t found = 0;

	return is_own(device, &found);
}

/* ---- by number ------------------------------------------------------------------------------- */

/* Each of the two versions of the functions has its own numbering. */
struct numbering {
	nvmlReturn_t (*count)(unsigned int *deviceCount);
	nvmlReturn_t (*handle)(unsigned int index, nvmlDevice_t *device);
};

static struct numbering numbering_first(void)
{
	return (struct numbering){real_nvml(nvmlDeviceGetCount),
				  real_nvml(nvmlDeviceGetHandleByIndex)};
}

static struct numbering numbering_second(void)
{
	return (struct numbering){real_nvml(nvmlDeviceGetCount_v2),
				  real_nvml(nvmlDeviceGetHandleByIndex_v2)};
}

/* Is one of the tenant's devices not among those that answer? */
static bool misses_one(const struct numbering *all)
{
	uint32_t known = atomic_load(&state.devices);
	uint64_t found = 0;
	nvmlDevice_t device;
	unsigned n = 0;

	if (all->count(&n) != NVML_SUCCESS)
		return true;
	for (unsigned i = 0; i < n; i++)
		if (all->handle(i, &device) == NVML_SUCCESS)
			(void)is_own(device, &found);
	for (uint32_t i = 0; i < known; i++)
		if (!(found >> i & 1) && !atomic_load(&state.device[i].gone))
			return true;
	return false;
}

/* A lost device answers with an error, so its owner cannot be told. If one of the tenant's devices
 * is missing, the lost one is taken for it. Otherwise it stays hidden, so that the others keep
 * their numbers. */
static bool visible_at(const struct numbering *all, unsigned index)
{
	nvmlDevice_t device;

	return all->handle(index, &device) == NVML_SUCCESS ? visible(device) : misses_one(all);
}

/* How many of the first n are visible. */
static unsigned visible_before(const struct numbering *all, unsigned n)
{
	unsigned count = 0;

	for (unsigned i = 0; i < n; i++)
		count += visible_at(all, i);
	return count;
}

static nvmlReturn_t count_devices(const struct numbering *all, unsigned *count)
{
	bool hides;
	nvmlReturn_t r = all->count(count);

	if (r == NVML_SUCCESS)
		r = begin(&hides);
	if (r == NVML_SUCCESS && hides)
		*count = visible_before(all, *count);
	return r;
}

nvmlReturn_t hook_nvmlDeviceGetCount(unsigned int *deviceCount)
{
	struct numbering all = numbering_first();

	return count_devices(&all, deviceCount);
}

nvmlReturn_t hook_nvmlDeviceGetCount_v2(unsigned int *deviceCount)
{
	struct numbering all = numbering_second();

	return count_devices(&all, deviceCount);
}

static nvmlReturn_t by_index(const struct numbering *all, unsigned index, nvmlDevice_t *device)
{
	unsigned n = 0, seen = 0;
	bool hides;
	nvmlReturn_t r = all->count(&n);

	if (r == NVML_SUCCESS)
		r = begin(&hides);
	if (r != NVML_SUCCESS)
		return r;
	if (!hides || !device)
		return all->handle(index, device);
	for (unsigned i = 0; i < n; i++)
		if (visible_at(all, i) && seen++ == index)
			return all->handle(i, device);
	return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t hook_nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
	struct numbering all = numbering_first();

	return by_index(&all, index, device);
}

nvmlReturn_t hook_nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	struct numbering all = numbering_second();

	return by_index(&all, index, device);
}

/* A part is numbered within its GPU. */
nvmlReturn_t hook_nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	struct numbering all = numbering_second();
	unsigned is_part = 0;
	bool hides;
	nvmlReturn_t r = real_nvml(nvmlDeviceGetIndex)(device, index);

	if (r == NVML_SUCCESS)
		r = begin(&hides);
	if (r != NVML_SUCCESS || !hides)
		return r;
	if (real_nvml(nvmlDeviceIsMigDeviceHandle)(device, &is_part) != NVML_SUCCESS || !is_part)
		*index = visible_before(&all, *index);
	return NVML_SUCCESS;
}

/* ---- by name --------------------------------------------------------------------------------- */

/* `r` is the real function's answer. */
static nvmlReturn_t found(nvmlReturn_t r, nvmlDevice_t *device)
{
	bool hides;

	if (r == NVML_SUCCESS)
		r = begin(&hides);
	if (r != NVML_SUCCESS || !hides || visible(*device))
		return r;
	*device = NULL;
	return NVML_ERROR_NOT_FOUND;
}

#define BY_NAME(symbol, type)                                                                      \
	nvmlReturn_t hook_##symbol(type name, nvmlDevice_t *device)                                \
	{                                                                                          \
		return found(real_nvml(symbol)(name, device), device);                             \
	}
BY_NAME(nvmlDeviceGetHandleByPciBusId, const char *)
BY_NAME(nvmlDeviceGetHandleByPciBusId_v2, const char *)
BY_NAME(nvmlDeviceGetHandleBySerial, const char *)
BY_NAME(nvmlDeviceGetHandleByUUID, const char *)
BY_NAME(nvmlDeviceGetHandleByUUIDV, const nvmlUUID_t *)
#undef BY_NAME

nvmlReturn_t hook_nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
						      nvmlDevice_t *migDevice)
{
	return found(real_nvml(nvmlDeviceGetMigDeviceHandleByIndex)(device, index, migDevice),
		     migDevice);
}

/* ---- by place -------------------------------------------------------------------------------- */

/* A question to NVML: which devices are near a device, or near a processor? */
struct place {
	bool is_processor;
	unsigned processor;
	nvmlDevice_t device;
	nvmlGpuTopologyLevel_t level;
};

static nvmlReturn_t ask(const struct place *at, unsigned *count, nvmlDevice_t *devices)
{
	if (at->is_processor)
		return real_nvml(nvmlSystemGetTopologyGpuSet)(at->processor, count, devices);
	return real_nvml(nvmlDeviceGetTopologyNearestGpus)(at->device, at->level, count, devices);
}

/* The visible devices in NVML's answer. */
static nvmlReturn_t ask_visible(const struct place *at, nvmlDevice_t all[DEVICES],
				unsigned *ret_kept)
{
	unsigned n = 0, kept = 0;
	nvmlReturn_t r = ask(at, &n, NULL);

	if (r == NVML_SUCCESS && n > DEVICES)
		n = DEVICES;
	if (r == NVML_SUCCESS && n)
		r = ask(at, &n, all);
	if (r != NVML_SUCCESS)
		return r;
	for (unsigned i = 0; i < n; i++)
		if (visible(all[i]))
			all[kept++] = all[i];
	*ret_kept = kept;
	return NVML_SUCCESS;
}

/* As with NVML: a count of 0 asks for the number of devices, any other count for that many of them.
 */
static nvmlReturn_t beside(const struct place *at, unsigned *count, nvmlDevice_t *devices)
{
	nvmlDevice_t all[DEVICES];
	unsigned kept = 0;
	bool hides;
	nvmlReturn_t r = begin(&hides);

	if (r != NVML_SUCCESS)
		return r;
	if (!hides || !count || (*count && !devices))
		return ask(at, count, devices);
	r = ask_visible(at, all, &kept);
	if (r != NVML_SUCCESS)
		return r;
	if (*count && *count < kept)
		kept = *count;
	if (*count)
		memcpy(devices, all, kept * sizeof(*devices));
	*count = kept;
	return NVML_SUCCESS;
}

nvmlReturn_t hook_nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device,
						   nvmlGpuTopologyLevel_t level,
						   unsigned int *count, nvmlDevice_t *deviceArray)
{
	struct place at = {.device = device, .level = level};

	return beside(&at, count, deviceArray);
}

nvmlReturn_t hook_nvmlSystemGetTopologyGpuSet(unsigned int cpuNumber, unsigned int *count,
					      nvmlDevice_t *deviceArray)
{
	struct place at = {.is_processor = true, .processor = cpuNumber};

	return beside(&at, count, deviceArray);
}
