/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/module.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/machine/device.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/managed.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/stream.h"
#include "sim/cuda/stream_set.h"

/* ---- life ------------------------------------------------------------------------------------ */

static bool code_has_managed(const struct ptx_module *code)
{
	const struct ptx_variable *variable;

	for (size_t i = 0; (variable = ptx_module_variable_at(code, i)); i++)
		if (variable->managed)
			return true;
	return false;
}

/* Memory for the variables, with their initial values in it. */
static CUresult module_place(struct CUmod_st *module)
{
	struct space_range range = {0};
	uint64_t bytes, align;
	CUresult r = CUDA_SUCCESS;
	int placed;

	ptx_module_data(module->code, &bytes, &align);
	if (bytes) {
		module->managed = code_has_managed(module->code);
		if (module->managed)
			r = managed_take(module->context, bytes, CU_MEM_ATTACH_GLOBAL, &range);
		else
			r = memory_take(module->context, bytes, SPACE_MODULE, &range);
		if (r != CUDA_SUCCESS)
			return r;
		module->base = range.base;
	}
	placed = ptx_module_place(module->code, range.base,
				  (void *)(uintptr_t)(range.base + range.delta));
	if (placed < 0)
		return placed == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_IMAGE;
	return CUDA_SUCCESS;
}

static CUresult module_functions(struct CUmod_st *module)
{
	size_t n = 0;

	while (ptx_module_kernel_at(module->code, n))
		n++;
	if (!n)
		return CUDA_SUCCESS;
	module->functions = calloc(n, sizeof(*module->functions));
	if (!module->functions)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (; module->n_functions < n; module->n_functions++) {
		struct CUfunc_st *function = &module->functions[module->n_functions];

		function->module = module;
		function->kernel = ptx_module_kernel_at(module->code, module->n_functions);
		atomic_store(&function->carveout, -1);
		if (handle_add(HANDLE_FUNCTION, function) < 0)
			return CUDA_ERROR_OUT_OF_MEMORY;
	}
	return CUDA_SUCCESS;
}

/* Frees a module, also one that is only half made. It is in no list. */
static void module_free(struct CUmod_st *module)
{
	struct space_range range;

	for (size_t i = 0; i < module->n_functions; i++) {
		handle_remove(HANDLE_FUNCTION, &module->functions[i]);
		free(module->functions[i].parameters);
	}
	free(module->functions);
	ptx_module_free(module->code);
	if (module->base && space_find(module->base, &range) == 0)
		memory_give(&range);
	free(module);
}

CUresult module_load(struct CUctx_st *context, const struct image *image, struct CUlib_st *library,
		     struct CUmod_st **ret_module, struct image_log *log)
{
	struct CUmod_st *module = calloc(1, sizeof(*module));
	CUresult r;

	if (!module)
		return CUDA_ERROR_OUT_OF_MEMORY;
	module->context = context;
	module->library = library;
	module->max_registers = log->max_registers ? log->max_registers : image->max_registers;
	r = image_compile(image, context->device, log, &module->code);
	if (r == CUDA_SUCCESS)
		r = module_place(module);
	if (r == CUDA_SUCCESS)
		r = module_functions(module);
	if (r == CUDA_SUCCESS && handle_add(HANDLE_MODULE, module) < 0)
		r = CUDA_ERROR_OUT_OF_MEMORY;
	if (r != CUDA_SUCCESS) {
		module_free(module);
		return r;
	}
	driver_lock();
	list_append(&context->modules, &module->link);
	driver_unlock();
	*ret_module = module;
	return CUDA_SUCCESS;
}

void module_unload(struct CUmod_st *module)
{
	stream_set_drain(module->context->streams);
	handle_remove(HANDLE_MODULE, module);
	driver_lock();
	list_remove(&module->link);
	driver_unlock();
	module_free(module);
}

void module_context_ended(struct CUctx_st *context)
{
	for (;;) {
		struct CUmod_st *module = NULL;

		driver_lock();
		if (!list_empty(&context->modules)) {
			module = list_entry(context->modules.next, struct CUmod_st, link);
			list_remove(&module->link);
		}
		driver_unlock();
		if (!module)
			return;
		handle_remove(HANDLE_MODULE, module);
		module_free(module);
	}
}

struct CUfunc_st *module_function(const struct CUmod_st *module, const char *name)
{
	const struct ptx_kernel *kernel = ptx_module_kernel(module->code, name);

	for (size_t i = 0; kernel && i < module->n_functions; i++)
		if (module->functions[i].kernel == kernel)
			return &module->functions[i];
	return NULL;
}

CUresult module_variable(const struct CUmod_st *module, const char *name, uint64_t *ret_address,
			 size_t *ret_bytes)
{
	const struct ptx_variable *variable = ptx_module_variable(module->code, name);

	if (!variable)
		return CUDA_ERROR_NOT_FOUND;
	if (ret_address)
		*ret_address = module->base + variable->offset;
	if (ret_bytes)
		*ret_bytes = variable->size_bytes;
	return CUDA_SUCCESS;
}

/* ---- what programs call ---------------------------------------------------------------------- */

static uint32_t capability_of(const struct CUctx_st *context)
{
	const struct settings_device *shape = device_shape(context->device);

	return shape->capability_major * 10 + shape->capability_minor;
}

CUresult cuModuleLoadDataEx(CUmodule *ret_module, const void *bytes, unsigned n_options,
			    CUjit_option *options, void **values)
{
	struct CUctx_st *context;
	struct image image = {0};
	struct image_log log;
	CUresult r = context_current(&context);

	if (r == CUDA_SUCCESS)
		r = stream_capture_check();
	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_module || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	r = image_log_options(&log, n_options, options, values);
	if (r == CUDA_SUCCESS)
		r = image_read(bytes, capability_of(context), &image);
	if (r == CUDA_SUCCESS)
		r = module_load(context, &image, NULL, ret_module, &log);
	image_done(&image);
	return r;
}

CUresult cuModuleLoadData(CUmodule *ret_module, const void *bytes)
{
	return cuModuleLoadDataEx(ret_module, bytes, 0, NULL, NULL);
}

CUresult cuModuleLoadFatBinary(CUmodule *ret_module, const void *bytes)
{
	return cuModuleLoadDataEx(ret_module, bytes, 0, NULL, NULL);
}

CUresult cuModuleLoad(CUmodule *ret_module, const char *path)
{
	struct CUctx_st *context;
	struct image image = {0};
	struct image_log log = {0};
	CUresult r = context_current(&context);

	if (r == CUDA_SUCCESS)
		r = stream_capture_check();
	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_module || !path)
		return CUDA_ERROR_INVALID_VALUE;
	r = image_read_file(path, capability_of(context), &image);
	if (r == CUDA_SUCCESS)
		r = module_load(context, &image, NULL, ret_module, &log);
	image_done(&image);
	return r;
}

/* A living module, in a context that works. */
static CUresult module_named(CUmodule module)
{
	struct CUctx_st *context;
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	return handle_is(HANDLE_MODULE, module) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* Without a current context, too: a module knows its own (sim/cuda/memory.c's memory_freer). */
CUresult cuModuleUnload(CUmodule module)
{
	CUresult r = module_named(module);

	if (r == CUDA_ERROR_INVALID_CONTEXT && handle_is(HANDLE_MODULE, module))
		r = CUDA_SUCCESS;
	if (r == CUDA_SUCCESS)
		r = stream_capture_check();
	if (r != CUDA_SUCCESS)
		return r;
	if (module->library)
		return CUDA_ERROR_NOT_PERMITTED; /* it ends with its library */
	module_unload(module);
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *ret_function, CUmodule module, const char *name)
{
	struct CUfunc_st *function;
	CUresult r = module_named(module);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_function || !name)
		return CUDA_ERROR_INVALID_VALUE;
	function = module_function(module, name);
	if (!function)
		return CUDA_ERROR_NOT_FOUND;
	*ret_function = function;
	return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module,
			      const char *name)
{
	uint64_t found;
	CUresult r = module_named(module);

	if (r != CUDA_SUCCESS)
		return r;
	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	r = module_variable(module, name, &found, bytes);
	if (r == CUDA_SUCCESS && address)
		*address = found;
	return r;
}

CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule module)
{
	CUresult r = module_named(module);

	if (r != CUDA_SUCCESS)
		return r;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = (unsigned)module->n_functions;
	return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned n, CUmodule module)
{
	CUresult r = module_named(module);

	if (r != CUDA_SUCCESS)
		return r;
	if (!functions)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n && i < module->n_functions; i++)
		functions[i] = &module->functions[i];
	return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	CUresult r = driver_ready();

	if (r != CUDA_SUCCESS)
		return r;
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = CU_MODULE_EAGER_LOADING;
	return CUDA_SUCCESS;
}

static CUresult no_reference(CUmodule module, const char *name)
{
	CUresult r = module_named(module);

	if (r != CUDA_SUCCESS)
		return r;
	return name ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
}

/* A module with textures or surfaces does not load, so that none has any. */
CUresult cuModuleGetTexRef(CUtexref *reference, CUmodule module, const char *name)
{
	(void)reference;
	return no_reference(module, name);
}

CUresult cuModuleGetSurfRef(CUsurfref *reference, CUmodule module, const char *name)
{
	(void)reference;
	return no_reference(module, name);
}
