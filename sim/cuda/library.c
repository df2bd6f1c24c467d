/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/cuda/library.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/prototypes.h"
#include "sim/machine/device.h"
#include "sim/cuda/driver.h"
#include "sim/cuda/function.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/module.h"

struct CUkern_st {
	struct CUlib_st *library;
	const struct ptx_kernel *kernel; /* from the library's own copy of the code */
};

/* A context in which the library has been loaded. */
struct library_use {
	struct library_use *next;
	uint64_t origin; /* the context's id */
	struct CUmod_st *module;
};

struct CUlib_st {
	pthread_mutex_t lock; /* uses; held while a module is loaded */
	struct image image;
	struct ptx_module *code; /* never placed: for names and shapes only */
	size_t n_kernels;
	struct CUkern_st *kernels;
	struct library_use *uses;
};

static void library_free(struct CUlib_st *library)
{
	for (size_t i = 0; i < library->n_kernels; i++)
		handle_remove(HANDLE_KERNEL, &library->kernels[i]);
	while (library->uses) {
		struct library_use *use = library->uses;

		library->uses = use->next;
		free(use);
	}
	free(library->kernels);
	ptx_module_free(library->code);
	image_done(&library->image);
	pthread_mutex_destroy(&library->lock);
	free(library);
}

/* Takes over the image. */
static CUresult library_new(struct image *image, CUdevice device, struct image_log *log,
			    CUlibrary *ret_library)
{
	struct CUlib_st *library = calloc(1, sizeof(*library));
	CUresult r;
	size_t n = 0;

	if (!library)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_init(&library->lock, NULL);
	library->image = *image;
	memset(image, 0, sizeof(*image));
	if (log->max_registers)
		library->image.max_registers = log->max_registers;
	r = image_compile(&library->image, device, log, &library->code);
	if (r != CUDA_SUCCESS)
		goto failed;
	while (ptx_module_kernel_at(library->code, n))
		n++;
	r = CUDA_ERROR_OUT_OF_MEMORY;
	library->kernels = calloc(n + 1, sizeof(*library->kernels));
	if (!library->kernels)
		goto failed;
	for (; library->n_kernels < n; library->n_kernels++) {
		struct CUkern_st *kernel = &library->kernels[library->n_kernels];

		kernel->library = library;
		kernel->kernel = ptx_module_kernel_at(library->code, library->n_kernels);
		if (handle_add(HANDLE_KERNEL, kernel) < 0)
			goto failed;
	}
	if (handle_add(HANDLE_LIBRARY, library) < 0)
		goto failed;
	*ret_library = library;
	return CUDA_SUCCESS;
failed:
	library_free(library);
	return r;
}

/* The device whose code is read before there is a context: in most machines they are all of one
 * kind. */
static CUdevice library_device(void)
{
	CUcontext context = NULL;

	best_effort(cuCtxGetCurrent(&context));
	return context ? context->device : 0;
}

static uint32_t capability_of(CUdevice device)
{
	const struct settings_device *shape = device_shape(device);

	return shape->capability_major * 10 + shape->capability_minor;
}

static CUresult options_check(unsigned n, CUlibraryOption *options, void **values)
{
	if (n && (!options || (!values && options[0] != CU_LIBRARY_BINARY_IS_PRESERVED)))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n; i++)
		if ((unsigned)options[i] >= CU_LIBRARY_NUM_OPTIONS)
			return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* Either of `code` and `path` is NULL. */
static CUresult library_load(CUlibrary *ret_library, const void *code, const char *path,
			     CUjit_option *jit_options, void **jit_values, unsigned n_jit,
			     CUlibraryOption *options, void **values, unsigned n_options)
{
	struct image image = {0};
	struct image_log log;
	CUresult r = driver_ready();

	if (r == CUDA_SUCCESS && (!ret_library || (!code && !path)))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = options_check(n_options, options, values);
	if (r == CUDA_SUCCESS)
		r = image_log_options(&log, n_jit, jit_options, jit_values);
	if (r == CUDA_SUCCESS && code)
		r = image_read(code, capability_of(library_device()), &image);
	else if (r == CUDA_SUCCESS)
		r = image_read_file(path, capability_of(library_device()), &image);
	if (r == CUDA_SUCCESS)
		r = library_new(&image, library_device(), &log, ret_library);
	image_done(&image);
	return r;
}

CUresult cuLibraryLoadData(CUlibrary *ret_library, const void *code, CUjit_option *jit_options,
			   void **jit_values, unsigned n_jit, CUlibraryOption *options,
			   void **values, unsigned n_options)
{
	return library_load(ret_library, code, NULL, jit_options, jit_values, n_jit, options,
			    values, n_options);
}

CUresult cuLibraryLoadFromFile(CUlibrary *ret_library, const char *path, CUjit_option *jit_options,
			       void **jit_values, unsigned n_jit, CUlibraryOption *options,
			       void **values, unsigned n_options)
{
	return library_load(ret_library, NULL, path, jit_options, jit_values, n_jit, options,
			    values, n_options);
}

static CUresult library_named(CUlibrary library)
{
	return driver_knows(HANDLE_LIBRARY, library);
}

CUresult cuLibraryUnload(CUlibrary library)
{
	CUresult r = library_named(library);

	if (r != CUDA_SUCCESS)
		return r;
	handle_remove(HANDLE_LIBRARY, library);
	for (struct library_use *use = library->uses; use; use = use->next)
		if (handle_is(HANDLE_MODULE, use->module) && use->module->library == library)
			module_unload(use->module);
	library_free(library);
	return CUDA_SUCCESS;
}

/* Under the library's lock. NULL: it has not been loaded into the context. */
static struct library_use *use_in(const struct CUlib_st *library, const struct CUctx_st *context)
{
	struct library_use *use;

	for (use = library->uses; use; use = use->next)
		if (use->origin == context->id)
			break;
	return use;
}

static bool is_loaded(struct CUlib_st *library, const struct CUctx_st *context)
{
	bool loaded;

	pthread_mutex_lock(&library->lock);
	loaded = use_in(library, context) != NULL;
	pthread_mutex_unlock(&library->lock);
	return loaded;
}

/* The library's module in the current context. */
static CUresult library_module(struct CUlib_st *library, struct CUmod_st **ret_module)
{
	struct CUctx_st *context;
	struct library_use *use;
	struct image_log log = {0};
	CUresult r = context_current(&context);

	if (r != CUDA_SUCCESS)
		return r;
	pthread_mutex_lock(&library->lock);
	use = use_in(library, context);
	if (!use) {
		use = calloc(1, sizeof(*use));
		r = use ? module_load(context, &library->image, library, &use->module, &log)
			: CUDA_ERROR_OUT_OF_MEMORY;
		if (r == CUDA_SUCCESS) {
			use->origin = context->id;
			use->next = library->uses;
			library->uses = use;
		} else {
			free(use);
		}
	}
	if (r == CUDA_SUCCESS)
		*ret_module = use->module;
	pthread_mutex_unlock(&library->lock);
	return r;
}

CUresult library_function(CUkernel kernel, struct CUfunc_st **ret_function)
{
	struct CUfunc_st *function;
	struct CUmod_st *module;
	CUresult r = library_module(kernel->library, &module);

	if (r != CUDA_SUCCESS)
		return r;
	function = module_function(module, kernel->kernel->name);
	if (!function)
		return CUDA_ERROR_NOT_FOUND;
	*ret_function = function;
	return CUDA_SUCCESS;
}

/* ---- what is in a library -------------------------------------------------------------------- */

CUresult cuLibraryGetKernel(CUkernel *ret_kernel, CUlibrary library, const char *name)
{
	const struct ptx_kernel *found;
	CUresult r = library_named(library);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_kernel || !name)
		return CUDA_ERROR_INVALID_VALUE;
	found = ptx_module_kernel(library->code, name);
	for (size_t i = 0; found && i < library->n_kernels; i++) {
		if (library->kernels[i].kernel == found) {
			*ret_kernel = &library->kernels[i];
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_NOT_FOUND;
}

CUresult cuLibraryGetKernelCount(unsigned *count, CUlibrary library)
{
	CUresult r = library_named(library);

	if (r != CUDA_SUCCESS)
		return r;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = (unsigned)library->n_kernels;
	return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned n, CUlibrary library)
{
	CUresult r = library_named(library);

	if (r != CUDA_SUCCESS)
		return r;
	if (!kernels)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < n && i < library->n_kernels; i++)
		kernels[i] = &library->kernels[i];
	return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule *ret_module, CUlibrary library)
{
	CUresult r = library_named(library);

	if (r != CUDA_SUCCESS)
		return r;
	return ret_module ? library_module(library, ret_module) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult library_variable(CUdeviceptr *address, size_t *bytes, CUlibrary library,
				 const char *name, bool managed)
{
	const struct ptx_variable *variable;
	struct CUmod_st *module;
	uint64_t found;
	CUresult r = library_named(library);

	if (r != CUDA_SUCCESS)
		return r;
	if (!name || (!address && !bytes))
		return CUDA_ERROR_INVALID_VALUE;
	variable = ptx_module_variable(library->code, name);
	if (!variable || (managed && !variable->managed))
		return CUDA_ERROR_NOT_FOUND;
	r = library_module(library, &module);
	if (r == CUDA_SUCCESS)
		r = module_variable(module, name, &found, bytes);
	if (r == CUDA_SUCCESS && address)
		*address = found;
	return r;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *bytes, CUlibrary library,
			    const char *name)
{
	return library_variable(address, bytes, library, name, false);
}

CUresult cuLibraryGetManaged(CUdeviceptr *address, size_t *bytes, CUlibrary library,
			     const char *name)
{
	return library_variable(address, bytes, library, name, true);
}

CUresult cuLibraryGetUnifiedFunction(void **function, CUlibrary library, const char *symbol)
{
	CUresult r = library_named(library);

	if (r != CUDA_SUCCESS)
		return r;
	return function && symbol ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_VALUE;
}

/* ---- kernels --------------------------------------------------------------------------------- */

static CUresult kernel_named(CUkernel kernel)
{
	return driver_knows(HANDLE_KERNEL, kernel);
}

CUresult cuKernelGetFunction(CUfunction *ret_function, CUkernel kernel)
{
	CUresult r = kernel_named(kernel);

	if (r != CUDA_SUCCESS)
		return r;
	return ret_function ? library_function(kernel, ret_function) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuKernelGetLibrary(CUlibrary *ret_library, CUkernel kernel)
{
	CUresult r = kernel_named(kernel);

	if (r != CUDA_SUCCESS)
		return r;
	if (!ret_library)
		return CUDA_ERROR_INVALID_VALUE;
	*ret_library = kernel->library;
	return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
	CUresult r = driver_ready();

	if (r == CUDA_SUCCESS && (!name || !kernel))
		r = CUDA_ERROR_INVALID_VALUE;
	if (r == CUDA_SUCCESS)
		r = kernel_named(kernel);
	if (r != CUDA_SUCCESS)
		return r;
	*name = kernel->kernel->name;
	return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel kernel, size_t index, size_t *offset, size_t *bytes)
{
	CUresult r = kernel_named(kernel);

	return r == CUDA_SUCCESS ? function_parameter(kernel->kernel, index, offset, bytes) : r;
}

/* Attributes are the function's in the device's context, which has to be the current one. */
static CUresult kernel_context(CUkernel kernel, CUdevice device, CUcontext *ret_context)
{
	CUcontext context = NULL;
	CUresult r = kernel_named(kernel);

	if (r == CUDA_SUCCESS)
		r = driver_device(device);
	if (r == CUDA_SUCCESS)
		r = context_current(&context);
	if (r != CUDA_SUCCESS && r != CUDA_ERROR_INVALID_CONTEXT)
		return r;
	if (!context || context->device != device) {
		driver_log("attributes of a CUkernel need a current context on its device");
		return CUDA_ERROR_INVALID_CONTEXT;
	}
	*ret_context = context;
	return CUDA_SUCCESS;
}

/* A query does not load the library: if it is not loaded yet, the answer is that of a fresh
 * function. */
CUresult cuKernelGetAttribute(int *value, CUfunction_attribute attribute, CUkernel kernel,
			      CUdevice device)
{
	CUcontext context = NULL;
	struct CUfunc_st *function = NULL;
	CUresult r = kernel_context(kernel, device, &context);

	if (r != CUDA_SUCCESS)
		return r;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_loaded(kernel->library, context)) {
		r = library_function(kernel, &function);
		return r == CUDA_SUCCESS ? function_attribute(function, attribute, value) : r;
	}
	return function_attribute(
		&(struct CUfunc_st){
			.module = &(struct CUmod_st){.context = context,
						     .max_registers =
							     kernel->library->image.max_registers},
			.kernel = kernel->kernel},
		attribute, value);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel kernel,
			      CUdevice device)
{
	CUcontext context = NULL;
	struct CUfunc_st *function;
	CUresult r = kernel_context(kernel, device, &context);

	if (r == CUDA_SUCCESS)
		r = library_function(kernel, &function);
	return r == CUDA_SUCCESS ? function_set_attribute(function, attribute, value) : r;
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice device)
{
	CUresult r = kernel_named(kernel);

	if (r == CUDA_SUCCESS)
		r = driver_device(device);
	if (r != CUDA_SUCCESS)
		return r;
	return (unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE
							     : CUDA_SUCCESS;
}
