/* SPDX-License-Identifier: Apache-2.0 */
/* From texts to code, and where the messages go. */
#include <stdlib.h>
#include <string.h>

#include "sim/machine/device.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/image.h"

CUresult image_log_options(struct image_log *ret_log, unsigned n, CUjit_option *options,
			   void **values)
{
	struct image_log log = {0};

	if (n && (!options || !values))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n; i++) {
		switch ((int)options[i]) {
		case CU_JIT_INFO_LOG_BUFFER:
			log.info = values[i];
			break;
		case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
			log.info_bytes = (unsigned)(uintptr_t)values[i];
			log.info_used = &values[i];
			break;
		case CU_JIT_ERROR_LOG_BUFFER:
			log.error = values[i];
			break;
		case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
			log.error_bytes = (unsigned)(uintptr_t)values[i];
			log.error_used = &values[i];
			break;
		case CU_JIT_MAX_REGISTERS:
			log.max_registers = (unsigned)(uintptr_t)values[i];
			break;
		case CU_JIT_WALL_TIME:
			log.wall_time = &values[i];
			break;
		default:
			/* Targets, register counts and the like mean nothing to an interpreter. */
			if ((unsigned)options[i] > 64)
				return CUDA_ERROR_INVALID_VALUE;
			break;
		}
	}
	*ret_log = log;
	return CUDA_SUCCESS;
}

static void log_used(void **used, size_t bytes)
{
	if (used)
		*used = (void *)(uintptr_t)bytes;
}

void image_log_error(const struct image_log *log, const char *text)
{
	size_t bytes = 0;

	if (log->error && log->error_bytes) {
		snprintf(log->error, log->error_bytes, "error : %s", text);
		bytes = strlen(log->error);
	}
	log_used(log->error_used, bytes);
	if (log->info && log->info_bytes)
		log->info[0] = 0;
	log_used(log->info_used, 0);
}

void image_log_done(const struct image_log *log)
{
	const float nothing = 0;

	if (log->error && log->error_bytes)
		log->error[0] = 0;
	if (log->info && log->info_bytes)
		log->info[0] = 0;
	log_used(log->error_used, 0);
	log_used(log->info_used, 0);
	if (log->wall_time)
		memcpy(log->wall_time, &nothing, sizeof(nothing));
}

/* The newest PTX version that a driver of this CUDA version reads. */
static uint32_t ptx_version_of(int driver)
{
	static const struct {
		int driver;
		uint32_t ptx;
	} versions[] = {
		{13000, 90}, {12090, 88}, {12080, 87}, {12060, 85}, {12050, 85},
		{12040, 84}, {12030, 83}, {12020, 82}, {12010, 81}, {12000, 80},
		{11080, 78}, {11070, 77}, {11060, 76}, {11050, 75}, {11040, 74},
		{11030, 73}, {11020, 72}, {11010, 71}, {11000, 70},
	};

	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		if (driver >= versions[i].driver)
			return versions[i].ptx;
	return 65;
}

CUresult image_compile(const struct image *image, CUdevice device, const struct image_log *log,
		       struct ptx_module **ret_code)
{
	const struct settings_device *shape = device_shape(device);
	struct ptx_options options = {
		.capability = shape->capability_major * 10 + shape->capability_minor,
		.ptx_version = ptx_version_of(driver_version()),
	};
	struct ptx_error error = {0};
	int r = ptx_module_new(image->sources, image->n_sources, &options, ret_code, &error);

	if (r == 0) {
		image_log_done(log);
		return CUDA_SUCCESS;
	}
	if (r < 0)
		return r == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	image_log_error(log, error.text);
	driver_lacks("code is refused: %s", error.text);
	switch ((enum ptx_load_outcome)r) {
	case PTX_TOO_NEW:
		return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
	case PTX_INVALID:
	case PTX_UNRESOLVED:
		break;
	}
	return CUDA_ERROR_INVALID_PTX;
}
