/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/types.h"
#include "sim/machine/device.h"

/* One row of the table each. NOLINTNEXTLINE(readability-function-size) */
int device_attribute(int device, int attribute, int *ret_value)
{
	const struct settings_device *shape = device_shape(device);
	uint32_t capability = shape->capability_major * 10 + shape->capability_minor;

	switch ((CUdevice_attribute)attribute) {
#define ATTRIBUTE(name, value)                                                                     \
	case CU_DEVICE_ATTRIBUTE_##name:                                                           \
		*ret_value = (value);                                                              \
		return 0;
#include "sim/machine/attributes.def"
#undef ATTRIBUTE
	case CU_DEVICE_ATTRIBUTE_MAX:
		break;
	}
	return DEVICE_UNKNOWN;
}
