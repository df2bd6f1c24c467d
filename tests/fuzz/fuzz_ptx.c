/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as PTX: they are refused in one sentence, or they make a module whose variables lie in
 * what it asked for and whose kernels run, fault, or are cut off, inside the memory they were
 * given.
 */
#include <string.h>

#include "base/macros.h"
#include "sim/ptx/ptx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMORY = 1 << 20, BUDGET = 20000, KERNELS = 4 };

static const uint64_t DEVICE = 0x700000000000;

static int find_range(void *context, uint64_t address, struct ptx_range *ret_range)
{
	if (address < DEVICE || address >= DEVICE + MEMORY)
		return 1;
	*ret_range = (struct ptx_range){DEVICE, DEVICE + MEMORY,
					(uint64_t)(uintptr_t)context - DEVICE, true};
	return 0;
}

static void check(bool holds)
{
	if (!holds)
		abort();
}

static void run(const struct ptx_kernel *kernel, void *memory)
{
	static const uint64_t params[64] = {0x700000000000, 0x700000080000, 4, 4};
	struct ptx_environment environment = {
		.context = memory, .find_range = find_range, .stack_bytes = 4096};
	struct ptx_launch launch = {.grid = {2, 1, 1},
				    .block = {40, 1, 1},
				    .dynamic_shared_bytes = 256,
				    .params = params,
				    .params_bytes = sizeof(params)};
	struct ptx_grid *grid;
	int r = PTX_RUNNING;

	if (kernel->reqntid[0])
		memcpy(launch.block, kernel->reqntid, sizeof(launch.block));
	if (kernel->local_bytes > MEMORY || ptx_grid_new(kernel, &launch, &environment, &grid) != 0)
		return;
	for (int n = 0; n < 8 && (r == PTX_RUNNING || r == PTX_WAITING); n++)
		r = ptx_grid_run(grid, BUDGET / 8);
	check((r == PTX_FAULTED) == (ptx_grid_report(grid)->fault != PTX_FAULT_NONE));
	ptx_grid_free(grid);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ptx_source source = {.text = (const char *)data, .bytes = size};
	struct ptx_options options = {.capability = 90};
	const struct ptx_variable *variable;
	const struct ptx_kernel *kernel;
	struct ptx_module *module;
	struct ptx_error error;
	uint64_t bytes, align;
	void *memory;
	int r;

	if (!size)
		return 0;
	r = ptx_module_new(&source, 1, &options, &module, &error);
	check(r >= 0 && (r == 0 || error.text[0]));
	if (r)
		return 0;
	ptx_module_data(module, &bytes, &align);
	for (size_t i = 0; (variable = ptx_module_variable_at(module, i)); i++)
		check(variable->offset <= bytes &&
		      variable->size_bytes <= bytes - variable->offset);
	memory = calloc(1, MEMORY);
	if (memory && bytes <= MEMORY && DEVICE % align == 0 &&
	    ptx_module_place(module, DEVICE, memory) == 0)
		for (size_t i = 0; i < KERNELS && (kernel = ptx_module_kernel_at(module, i)); i++)
			run(kernel, memory);
	free(memory);
	ptx_module_free(module);
	return 0;
}
