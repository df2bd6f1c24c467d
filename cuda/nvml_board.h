/* SPDX-License-Identifier: Apache-2.0 */
/* What a GPU's board says of itself, for all that ask NVIDIA's management library. */
#pragma once

#include "base/board.h"
#include "cuda/nvml_prototypes.h"

/* NULL: the library has no such function. */
struct nvml_board_calls {
	__typeof__(&nvmlDeviceGetUtilizationRates) rates;
	__typeof__(&nvmlDeviceGetTemperature) temperature;
	__typeof__(&nvmlDeviceGetPowerUsage) power;
	__typeof__(&nvmlDeviceGetEnforcedPowerLimit) power_limit;
	__typeof__(&nvmlDeviceGetClockInfo) clock;
};

/* Asks each of them. Blocks. */
struct gpu_board nvml_board_read(const struct nvml_board_calls *calls, nvmlDevice_t device);
