/* SPDX-License-Identifier: Apache-2.0 */
/* cuLink*: texts are collected, linked once to see whether they fit, and handed out in a package
 * that cuModuleLoadData() and its kin take back. */
#include <stdlib.h>
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/machine/device.h"
#include "sim/cuda/device_runtime.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/image.h"
#include "sim/cuda/context.h"

struct CUlinkState_st {
	CUdevice device;
	struct image image;
	struct image_log log; /* the program keeps its options until cuLinkDestroy */
	void *output;
};

CUresult cuLinkCreate_v2(unsigned n, CUjit_option *options, void **values, CUlinkState *ret_link)
{
	struct CUlinkState_st *link;
	struct CUctx_st *context;
	struct image_log log;
	CUresult r = context_current(&context);

	if (r == CUDA_SUCCESS)
		r = ret_link ? image_log_options(&log, n, options, values)
			     : CUDA_ERROR_INVALID_VALUE;
	if (r != CUDA_SUCCESS)
		return r;
	link = calloc(1, sizeof(*link));
	if (!link || handle_add(HANDLE_LINK, link) < 0) {
		free(link);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	link->device = context->device;
	link->log = log;
	link->image.max_registers = log.max_registers;
	*ret_link = link;
	return CUDA_SUCCESS;
}

static CUresult link_named(CUlinkState link)
{
	return driver_knows(HANDLE_LINK, link);
}

/* Libraries and objects of machine code cannot be run. Their names are kept, and they are refused
 * only if something in them turns out to be missing. */
static CUresult link_add(CUlinkState link, CUjitInputType type, const void *data, size_t bytes,
			 const char *name)
{
	const struct settings_device *shape = device_shape(link->device);
	uint32_t capability = shape->capability_major * 10 + shape->capability_minor;
	struct image image = {0};
	CUresult r;

	switch ((int)type) {
	case CU_JIT_INPUT_PTX:
		return image_add(&link->image, data, bytes, name);
	case CU_JIT_INPUT_LIBRARY:
		if (bytes < 8 || memcmp(data, "!<arch>\n", 8) != 0)
			return CUDA_ERROR_INVALID_IMAGE;
		if (name && strstr(name, "cudadevrt"))
			return image_add(&link->image, device_runtime_ptx, 0, "device runtime");
		driver_log("library %s: its machine code is left out", name ? name : "(no name)");
		return CUDA_SUCCESS;
	case CU_JIT_INPUT_CUBIN:
	case CU_JIT_INPUT_FATBINARY:
	case CU_JIT_INPUT_OBJECT:
		if (bytes < 64)
			return CUDA_ERROR_INVALID_IMAGE;
		r = image_read(data, capability, &image);
		if (r == CUDA_SUCCESS)
			r = image_append(&link->image, &image);
		image_done(&image);
		return r;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult cuLinkAddData_v2(CUlinkState link, CUjitInputType type, void *data, size_t bytes,
			  const char *name, unsigned n, CUjit_option *options, void **values)
{
	CUresult r = link_named(link);

	if (r != CUDA_SUCCESS)
		return r;
	if (!data || !bytes || link->output || (n && (!options || !values)))
		return CUDA_ERROR_INVALID_VALUE;
	r = link_add(link, type, data, bytes, name);
	if (r != CUDA_SUCCESS && r != CUDA_ERROR_OUT_OF_MEMORY)
		image_log_error(&link->log, "an input holds nothing that can be simulated: PTX is "
					    "needed");
	return r;
}

static CUresult file_read(const char *path, char **ret_bytes, size_t *ret_size)
{
	owned(fclose) FILE *file = fopen(path, "rbe");
	char *bytes = NULL;
	long size;

	if (!file)
		return CUDA_ERROR_FILE_NOT_FOUND;
	if (fseek(file, 0, SEEK_END) < 0 || (size = ftell(file)) <= 0)
		return CUDA_ERROR_INVALID_IMAGE;
	rewind(file);
	bytes = calloc(1, (size_t)size + 64);
	if (!bytes)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (fread(bytes, 1, (size_t)size, file) != (size_t)size) {
		free(bytes);
		return CUDA_ERROR_OPERATING_SYSTEM;
	}
	*ret_bytes = bytes;
	*ret_size = (size_t)size;
	return CUDA_SUCCESS;
}

CUresult cuLinkAddFile_v2(CUlinkState link, CUjitInputType type, const char *path, unsigned n,
			  CUjit_option *options, void **values)
{
	char *bytes = NULL;
	size_t size;
	CUresult r = link_named(link);

	if (r != CUDA_SUCCESS)
		return r;
	if (!path)
		return CUDA_ERROR_INVALID_VALUE;
	r = file_read(path, &bytes, &size);
	if (r == CUDA_SUCCESS)
		r = cuLinkAddData_v2(link, type, bytes, size, path, n, options, values);
	free(bytes);
	return r;
}

CUresult cuLinkComplete(CUlinkState link, void **ret_output, size_t *ret_size)
{
	struct ptx_module *code;
	size_t size;
	CUresult r = link_named(link);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_output || link->output)
		return CUDA_ERROR_INVALID_VALUE;
	r = image_compile(&link->image, link->device, &link->log, &code);
	if (r != CUDA_SUCCESS)
		return r;
	ptx_module_free(code);
	r = image_pack(&link->image, &link->output, &size);
	if (r != CUDA_SUCCESS)
		return r;
	*ret_output = link->output;
	if (ret_size)
		*ret_size = size;
	return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState link)
{
	CUresult r = link_named(link);

	if (r != CUDA_SUCCESS)
		return r;
	handle_remove(HANDLE_LINK, link);
	image_done(&link->image);
	free(link->output);
	free(link);
	return CUDA_SUCCESS;
}

/* The first versions differ in the type of a number only. */
CUresult cuLinkCreate(unsigned n, CUjit_option *options, void **values, CUlinkState *ret_link)
{
	return cuLinkCreate_v2(n, options, values, ret_link);
}

CUresult cuLinkAddData(CUlinkState link, CUjitInputType type, void *data, size_t bytes,
		       const char *name, unsigned n, CUjit_option *options, void **values)
{
	return cuLinkAddData_v2(link, type, data, bytes, name, n, options, values);
}

CUresult cuLinkAddFile(CUlinkState link, CUjitInputType type, const char *path, unsigned n,
		       CUjit_option *options, void **values)
{
	return cuLinkAddFile_v2(link, type, path, n, options, values);
}
