/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/nvml_board.h"

/* NVML counts milliwatts; a board that is on never takes 0. */
static int watts(nvmlReturn_t (*ask)(nvmlDevice_t, unsigned int *), nvmlDevice_t device)
{
	unsigned int milli = 0;

	if (!ask || ask(device, &milli) != NVML_SUCCESS || !milli)
		return BOARD_UNSAID;
	return (int)((milli + 500) / 1000);
}

struct gpu_board nvml_board_read(const struct nvml_board_calls *calls, nvmlDevice_t device)
{
	struct gpu_board board = board_unsaid();
	nvmlUtilization_t rates;
	unsigned int value;

	if (calls->rates && calls->rates(device, &rates) == NVML_SUCCESS)
		board.load_percent = (int)rates.gpu;
	if (calls->temperature &&
	    calls->temperature(device, NVML_TEMPERATURE_GPU, &value) == NVML_SUCCESS)
		board.celsius = (int)value;
	board.watts = watts(calls->power, device);
	board.watts_most = watts(calls->power_limit, device);
	if (calls->clock && calls->clock(device, NVML_CLOCK_SM, &value) == NVML_SUCCESS)
		board.mhz = (int)value;
	return board;
}
