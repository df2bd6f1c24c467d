/* SPDX-License-Identifier: Apache-2.0 */
/* NVML: sets of events (Xid and ECC), waited for at the segment's futex. */
#include <pthread.h>
#include <stdlib.h>

#include "cuda/nvml_prototypes.h"
#include "sim/machine/clock.h"
#include "sim/machine/device.h"
#include "sim/nvml/nvml.h"

#define EVENT_SET_MAGIC 0x6576656e74736574ULL

/* The events of a set, and how many of each device's events it has seen. */
struct nvmlEventSet_st {
	uint64_t magic;
	pthread_mutex_t mutex;
	unsigned long long kinds[SETTINGS_DEVICES_MAX];
	uint32_t seen[SETTINGS_DEVICES_MAX];
};

#define EVENT_KINDS                                                                                \
	(nvmlEventTypeSingleBitEccError | nvmlEventTypeDoubleBitEccError |                         \
	 nvmlEventTypeXidCriticalError)

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set)
{
	nvmlReturn_t r = nvml_ready();
	nvmlEventSet_t made;

	if (r != NVML_SUCCESS)
		return r;
	if (!set)
		return NVML_ERROR_INVALID_ARGUMENT;
	made = calloc(1, sizeof(*made));
	if (!made)
		return NVML_ERROR_MEMORY;
	made->magic = EVENT_SET_MAGIC;
	pthread_mutex_init(&made->mutex, NULL);
	*set = made;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	nvmlReturn_t r = nvml_ready();

	if (r != NVML_SUCCESS)
		return r;
	if (!set || set->magic != EVENT_SET_MAGIC)
		return NVML_ERROR_INVALID_ARGUMENT;
	set->magic = 0;
	pthread_mutex_destroy(&set->mutex);
	free(set);
	return NVML_SUCCESS;
}

static uint32_t events_so_far(int number)
{
	struct segment_device *book = &segment_get()->devices[number];
	uint32_t count;

	segment_lock(book);
	count = book->event_count;
	segment_unlock(book);
	return count;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long kinds,
				      nvmlEventSet_t set)
{
	int n;
	nvmlReturn_t r = nvml_device(device, &n);

	if (r != NVML_SUCCESS)
		return r;
	if (!set || set->magic != EVENT_SET_MAGIC)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (kinds & ~(unsigned long long)EVENT_KINDS)
		return NVML_ERROR_NOT_SUPPORTED;
	pthread_mutex_lock(&set->mutex);
	/* Earlier events are not reported. */
	if (!set->kinds[n])
		set->seen[n] = events_so_far(n);
	set->kinds[n] |= kinds;
	pthread_mutex_unlock(&set->mutex);
	return NVML_SUCCESS;
}

/* The oldest event on a device that the set waits for and has not seen. */
static bool next_of(nvmlEventSet_t set, int number, nvmlEventData_t *ret_data)
{
	struct segment_device *book = &segment_get()->devices[number];
	bool found = false;

	segment_lock(book);
	if (book->event_count - set->seen[number] > SEGMENT_EVENTS_MAX)
		set->seen[number] = book->event_count - SEGMENT_EVENTS_MAX;
	while (!found && set->seen[number] != book->event_count) {
		const struct segment_event_record *event =
			&book->events[set->seen[number]++ % SEGMENT_EVENTS_MAX];

		if (!(set->kinds[number] & event->kind))
			continue;
		*ret_data = (nvmlEventData_t){
			.device = nvml_handle(number),
			.eventType = event->kind,
			.eventData = event->value,
			.gpuInstanceId = event->instance,
			.computeInstanceId = event->instance == UINT32_MAX ? UINT32_MAX : 0};
		found = true;
	}
	segment_unlock(book);
	return found;
}

static bool next(nvmlEventSet_t set, nvmlEventData_t *ret_data)
{
	bool found = false;

	pthread_mutex_lock(&set->mutex);
	for (int i = 0; i < device_count() && !found; i++)
		if (set->kinds[i])
			found = next_of(set, i, ret_data);
	pthread_mutex_unlock(&set->mutex);
	return found;
}

/* The time-out is in the host's time, as for the waiting program. */
nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int timeout_ms)
{
	nvmlReturn_t r = nvml_ready();
	uint64_t deadline_ns;

	if (r != NVML_SUCCESS)
		return r;
	if (!set || set->magic != EVENT_SET_MAGIC || !data)
		return NVML_ERROR_INVALID_ARGUMENT;
	deadline_ns = clock_now_ns() + (uint64_t)timeout_ms * 1000000 / segment_settings()->dilate;
	for (;;) {
		_Atomic uint32_t *word = &segment_get()->events;
		uint32_t before = atomic_load(word);

		if (next(set, data))
			return NVML_SUCCESS;
		if (clock_wait_until(deadline_ns, word, before) == 0)
			return NVML_ERROR_TIMEOUT;
	}
}

nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_v1_t *data, unsigned int timeout_ms)
{
	nvmlEventData_t whole;
	nvmlReturn_t r;

	if (!data)
		return NVML_ERROR_INVALID_ARGUMENT;
	r = nvmlEventSetWait_v2(set, &whole, timeout_ms);
	if (r == NVML_SUCCESS)
		*data = (nvmlEventData_v1_t){.device = whole.device,
					     .eventType = whole.eventType,
					     .eventData = whole.eventData};
	return r;
}
