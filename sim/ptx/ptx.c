/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/ptx/ptx.h"

int ptx_module_new(const struct ptx_source *sources, size_t n_sources,
		   const struct ptx_options *options, struct ptx_module **ret_module,
		   struct ptx_error *ret_error)
{
	(void)sources, (void)n_sources, (void)options, (void)ret_module, (void)ret_error;
	return -ENOSYS;
}

void ptx_module_free(struct ptx_module *module)
{
	(void)module;
}

void ptx_module_data(const struct ptx_module *module, uint64_t *ret_bytes, uint64_t *ret_align)
{
	(void)module;
	*ret_bytes = 0;
	*ret_align = 1;
}

int ptx_module_place(struct ptx_module *module, uint64_t base_address, void *host_view)
{
	(void)module, (void)base_address, (void)host_view;
	return -ENOSYS;
}

const struct ptx_variable *ptx_module_variable(const struct ptx_module *module, const char *name)
{
	(void)module, (void)name;
	return NULL;
}

const struct ptx_variable *ptx_module_variable_at(const struct ptx_module *module, size_t index)
{
	(void)module, (void)index;
	return NULL;
}

const struct ptx_kernel *ptx_module_kernel(const struct ptx_module *module, const char *name)
{
	(void)module, (void)name;
	return NULL;
}

const struct ptx_kernel *ptx_module_kernel_at(const struct ptx_module *module, size_t index)
{
	(void)module, (void)index;
	return NULL;
}

int ptx_grid_new(const struct ptx_kernel *kernel, const struct ptx_launch *launch,
		 const struct ptx_environment *environment, struct ptx_grid **ret_grid)
{
	(void)kernel, (void)launch, (void)environment, (void)ret_grid;
	return -ENOSYS;
}

int ptx_grid_run(struct ptx_grid *grid, uint64_t budget)
{
	(void)grid, (void)budget;
	return -ENOSYS;
}

void ptx_grid_forget_ranges(struct ptx_grid *grid)
{
	(void)grid;
}

const struct ptx_report *ptx_grid_report(const struct ptx_grid *grid)
{
	(void)grid;
	return NULL;
}

void ptx_grid_free(struct ptx_grid *grid)
{
	(void)grid;
}
