/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/contexts/devices.h"

#include <string.h>

#include "guest/contexts/contexts.h"
#include "guest/driver/nested.h"
#include "guest/driver/real.h"
#include "guest/process/state.h"

static int find_uuid(const uint8_t *uuid)
{
	uint32_t devices = atomic_load(&state.devices);

	for (uint32_t i = 0; i < devices; i++)
		if (memcmp(state.device[i].uuid, uuid, 16) == 0)
			return atomic_load(&state.device[i].gone) ? -1 : (int)i;
	return -1;
}

int devices_index(CUdevice device)
{
	CUuuid uuid = {{0}};
	int index;
	CUresult r;

	if (device >= 0 && device < STATE_ORDINALS && atomic_load(&state.ordinal[device]) != 0) {
		index = atomic_load(&state.ordinal[device]);
		return index > 0 ? index - 1 : -1;
	}
	/* The second version names a MIG instance where there is one. */
	r = real_has(cuDeviceGetUuid_v2) ? real(cuDeviceGetUuid_v2)(&uuid, device)
					 : real(cuDeviceGetUuid)(&uuid, device);
	if (r != CUDA_SUCCESS || !state_joined())
		return -1;
	index = find_uuid((const uint8_t *)uuid.bytes);
	if (device >= 0 && device < STATE_ORDINALS)
		atomic_store(&state.ordinal[device], (int8_t)(index < 0 ? -1 : index + 1));
	return index;
}

int devices_of_context(CUcontext context)
{
	int index = contexts_device(context);
	CUcontext popped;
	CUdevice device;
	CUresult r;

	if (index > -2 || !context)
		return context ? index : -1;
	if (real(cuCtxPushCurrent_v2)(context) != CUDA_SUCCESS)
		return -1;
	r = real(cuCtxGetDevice)(&device);
	best_effort(real(cuCtxPopCurrent_v2)(&popped));
	if (r != CUDA_SUCCESS)
		return -1;
	index = devices_index(device);
	contexts_add(context, index);
	return index;
}

int devices_current(void)
{
	CUcontext context = NULL;

	if (real(cuCtxGetCurrent)(&context) != CUDA_SUCCESS || !context)
		return -1;
	return devices_of_context(context);
}

int devices_ordinal(int device)
{
	int count = 0;

	for (int i = 0; i < STATE_ORDINALS && device >= 0; i++)
		if (atomic_load_explicit(&state.ordinal[i], memory_order_relaxed) == device + 1)
			return i;
	if (device < 0 || driver_call(real(cuDeviceGetCount)(&count)) != CUDA_SUCCESS)
		return -1;
	for (int i = 0; i < count; i++)
		if (devices_index(i) == device)
			return i;
	return -1;
}
