/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels from the call to the last instruction. */
#include <stdlib.h>
#include <string.h>

#include "sim/machine/clock.h"
#include "sim/machine/device.h"
#include "sim/cuda/device_heap.h"
#include "sim/cuda/driver.h"
#include "sim/machine/engine.h"
#include "sim/cuda/execute.h"
#include "sim/machine/faults.h"
#include "sim/cuda/graph_condition.h"
#include "sim/cuda/handle.h"
#include "sim/cuda/managed.h"
#include "sim/cuda/memory.h"
#include "sim/cuda/module.h"
#include "sim/cuda/space.h"
#include "sim/cuda/stream_core.h"

#define KERNEL_BUDGET	   5000 /* warp instructions for which the space is held at a time */
#define KERNEL_POLL_NS	   50000
#define KERNEL_STACK_LEAST 65536
#define KERNEL_SHARED_FREE (48u << 10) /* dynamic shared memory that needs no opting in */
#define KERNEL_WORKSPACE   256

/* ---- describing ------------------------------------------------------------------------------ */

static CUresult shape_check(const struct CUfunc_st *function, const struct kernel_work *work)
{
	const struct settings_device *device = device_shape(function->module->context->device);
	static const uint32_t grid_most[3] = {0x7fffffff, 65535, 65535};
	static const uint32_t block_most[3] = {1024, 1024, 64};
	const struct ptx_kernel *kernel = function->kernel;
	uint64_t threads = 1, shared = (uint64_t)work->shared_bytes + kernel->shared_bytes;
	uint64_t opted = (uint64_t)atomic_load(&function->max_dynamic_shared);

	for (int i = 0; i < 3; i++) {
		if (!work->grid[i] || work->grid[i] > grid_most[i])
			return CUDA_ERROR_INVALID_VALUE;
		if (!work->block[i] || work->block[i] > block_most[i])
			return CUDA_ERROR_INVALID_VALUE;
		if (kernel->reqntid[0] && work->block[i] != kernel->reqntid[i])
			return CUDA_ERROR_INVALID_VALUE;
		threads *= work->block[i];
	}
	if (threads > 1024 || threads > kernel->max_threads)
		return CUDA_ERROR_INVALID_VALUE;
	if (shared > device->shared_per_block_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (shared > KERNEL_SHARED_FREE && work->shared_bytes > opted)
		return CUDA_ERROR_INVALID_VALUE;
	if (work->cooperative) {
		uint64_t most =
			(uint64_t)device->sms *
			function_blocks_per_sm(function, (uint32_t)threads, work->shared_bytes);

		if ((uint64_t)work->grid[0] * work->grid[1] * work->grid[2] > most)
			return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
	}
	return CUDA_SUCCESS;
}

/* The values of CU_LAUNCH_PARAM_BUFFER_POINTER and _SIZE. */
static CUresult extra_read(void **extra, const void **ret_buffer, size_t *ret_bytes)
{
	const void *buffer = NULL;
	size_t *bytes = NULL;

	for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
		if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
			buffer = extra[i + 1];
		else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
			bytes = extra[i + 1];
		else
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (!bytes || (!buffer && *bytes))
		return CUDA_ERROR_INVALID_VALUE;
	*ret_buffer = buffer;
	*ret_bytes = *bytes;
	return CUDA_SUCCESS;
}

static size_t parameters_end(const struct ptx_kernel *kernel)
{
	const struct ptx_param *last = &kernel->params[kernel->n_params - 1];

	return (size_t)last->offset + last->size_bytes;
}

static CUresult parameters_copy(const struct ptx_kernel *kernel, void **params, void **extra,
				struct kernel_work *work)
{
	const void *buffer = NULL;
	size_t bytes = 0;
	CUresult r;

	if (!kernel->n_params)
		return CUDA_SUCCESS;
	if (!params == !extra)
		return CUDA_ERROR_INVALID_VALUE;
	if (extra) {
		r = extra_read(extra, &buffer, &bytes);
		if (r != CUDA_SUCCESS)
			return r;
		if (bytes < parameters_end(kernel))
			return CUDA_ERROR_INVALID_VALUE;
	}
	work->parameters_bytes = kernel->params_bytes;
	work->parameters = calloc(1, kernel->params_bytes + 16);
	if (!work->parameters)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (buffer)
		memcpy(work->parameters, buffer,
		       bytes < kernel->params_bytes ? bytes : kernel->params_bytes);
	for (uint32_t i = 0; params && i < kernel->n_params; i++) {
		if (!params[i]) {
			kernel_done(work);
			return CUDA_ERROR_INVALID_VALUE;
		}
		memcpy(work->parameters + kernel->params[i].offset, params[i],
		       kernel->params[i].size_bytes);
	}
	return CUDA_SUCCESS;
}

CUresult kernel_prepare(CUfunction named, const struct kernel_work *shape, void **params,
			void **extra, struct kernel_work *ret_kernel)
{
	struct kernel_work work = *shape;
	struct CUfunc_st *function;
	CUresult r = function_find(named, &function);

	if (r != CUDA_SUCCESS)
		return r;
	work.function = function;
	work.parameters = NULL;
	work.parameters_bytes = 0;
	if (function->kernel->lacks) {
		driver_lacks("%s cannot be launched: %s is not simulated", function->kernel->name,
			     function->kernel->lacks);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	r = shape_check(function, &work);
	if (r == CUDA_SUCCESS)
		r = parameters_copy(function->kernel, params, extra, &work);
	if (r == CUDA_SUCCESS)
		*ret_kernel = work;
	return r;
}

void *kernel_parameter(const struct kernel_work *kernel, size_t index)
{
	const struct ptx_kernel *code = kernel->function->kernel;

	if (index >= code->n_params || !kernel->parameters)
		return NULL;
	return kernel->parameters + code->params[index].offset;
}

CUresult kernel_clone(const struct kernel_work *kernel, struct kernel_work *ret_kernel)
{
	*ret_kernel = *kernel;
	if (!kernel->parameters)
		return CUDA_SUCCESS;
	ret_kernel->parameters = malloc(kernel->parameters_bytes + 16);
	if (!ret_kernel->parameters)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memcpy(ret_kernel->parameters, kernel->parameters, kernel->parameters_bytes + 16);
	return CUDA_SUCCESS;
}

void kernel_done(struct kernel_work *kernel)
{
	free(kernel->parameters);
	memset(kernel, 0, sizeof(*kernel));
}

/* ---- what the interpreter asks --------------------------------------------------------------- */

struct run {
	struct CUctx_st *context;
	uint64_t reach;
	uint64_t fault_ns;	     /* the cost of missing pages of managed memory */
	struct graph_values *values; /* of the graph launch to which it belongs, or NULL */
};

static int run_find_range(void *data, uint64_t address, struct ptx_range *ret_range)
{
	struct run *run = data;
	struct space_range range;
	int r = space_lookup(address, run->context->device, run->reach, &range);

	if (r < 0)
		return r;
	if (range.kind == SPACE_MANAGED)
		run->fault_ns += managed_fault(&range, address, run->context->device);
	ret_range->lo = range.base;
	ret_range->hi = range.base + range.bytes;
	ret_range->host_delta = range.delta;
	ret_range->writable = (range.peers && (run->reach >> range.device & 1)) ||
			      (range.writable >> run->context->device & 1);
	return 0;
}

static uint64_t run_now_ns(void *data)
{
	(void)data;
	return clock_now_ns();
}

static uint64_t run_heap_alloc(void *data, uint64_t bytes)
{
	return device_heap_alloc(((struct run *)data)->context, bytes);
}

static void run_heap_free(void *data, uint64_t address)
{
	struct run *run = data;

	if (!device_heap_free(run->context, address))
		driver_log("a kernel frees %#llx, which it did not allocate",
			   (unsigned long long)address);
}

static void run_print(void *data, const char *text, size_t bytes)
{
	(void)data;
	fwrite(text, 1, bytes, stdout);
	fflush(stdout);
}

static void run_set_condition(void *data, uint64_t handle, uint32_t value)
{
	graph_values_set(((struct run *)data)->values, handle, value);
}

/* ---- running --------------------------------------------------------------------------------- */

static CUresult fault_result(enum ptx_fault fault)
{
	switch (fault) {
	case PTX_FAULT_ILLEGAL_ADDRESS:
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	case PTX_FAULT_MISALIGNED:
		return CUDA_ERROR_MISALIGNED_ADDRESS;
	case PTX_FAULT_ADDRESS_SPACE:
		return CUDA_ERROR_INVALID_ADDRESS_SPACE;
	case PTX_FAULT_ASSERT:
		return CUDA_ERROR_ASSERT;
	case PTX_FAULT_INVALID_PC:
		return CUDA_ERROR_INVALID_PC;
	case PTX_FAULT_STACK:
	case PTX_FAULT_DEADLOCK:
		return CUDA_ERROR_LAUNCH_FAILED;
	case PTX_FAULT_TRAP:
	case PTX_FAULT_NONE:
		break;
	}
	return CUDA_ERROR_LAUNCH_FAILED;
}

/* The report of the kernel module: Xid 31 if the memory unit found nothing at an address, 13 for a
 * trap of a multiprocessor. A failed assertion is not reported. */
static void fault_tell(int device, enum ptx_fault fault)
{
	if (fault == PTX_FAULT_ILLEGAL_ADDRESS)
		device_xid(device, 31);
	else if (fault != PTX_FAULT_ASSERT)
		device_xid(device, 13);
}

static void fault_log(const struct ptx_report *report, const char *kernel)
{
	driver_log("kernel %s: fault %d at line %u of its PTX (%s), %s address %#llx, block "
		   "(%u,%u,%u), thread (%u,%u,%u)",
		   kernel, (int)report->fault, report->fault_line,
		   report->fault_function ? report->fault_function : "?",
		   report->fault_write ? "writing" : "reading",
		   (unsigned long long)report->fault_address, report->fault_block[0],
		   report->fault_block[1], report->fault_block[2], report->fault_thread[0],
		   report->fault_thread[1], report->fault_thread[2]);
}

/* Interprets the grid to its end. If the context ends, kernels that only wait are aborted. */
static CUresult grid_run(struct ptx_grid *grid, struct CUctx_st *context, const char *name)
{
	uint64_t generation = space_generation();
	int r;

	for (;;) {
		uint64_t now;

		space_use();
		now = space_generation();
		if (now != generation) {
			ptx_grid_forget_ranges(grid);
			generation = now;
		}
		r = ptx_grid_run(grid, KERNEL_BUDGET);
		space_unuse();
		if (r != PTX_RUNNING && r != PTX_WAITING)
			break;
		if (context_error(context) != CUDA_SUCCESS || device_is_lost(context->device))
			return CUDA_ERROR_LAUNCH_FAILED;
		if (r == PTX_WAITING) {
			if (stream_set_ending(context->streams))
				return CUDA_ERROR_LAUNCH_FAILED;
			best_effort(clock_wait_until(clock_now_ns() + KERNEL_POLL_NS, NULL, 0));
		}
	}
	if (r == 0)
		return CUDA_SUCCESS;
	if (r < 0)
		return r == -ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_LAUNCH_FAILED;
	fault_log(ptx_grid_report(grid), name);
	fault_tell(context->device, ptx_grid_report(grid)->fault);
	return fault_result(ptx_grid_report(grid)->fault);
}

static uint64_t modelled_ns(const struct ptx_report *report, int device)
{
	uint64_t ns = report->cost_ns + report->sleep_ns;

	if (report->cost_bytes)
		ns += device_bandwidth_ns(device, report->cost_bytes);
	if (!report->annotated)
		ns += device_instructions_ns(device, report->thread_instructions);
	return ns;
}

static struct ptx_environment run_environment(struct run *run, const struct kernel_work *kernel)
{
	static _Atomic uint64_t grids;
	const struct settings_device *shape = device_shape(run->context->device);
	size_t stack = atomic_load(&run->context->limits[CU_LIMIT_STACK_SIZE]);
	uint32_t threads = kernel->block[0] * kernel->block[1] * kernel->block[2];

	return (struct ptx_environment){
		.context = run,
		.find_range = run_find_range,
		.now_ns = run_now_ns,
		.heap_alloc = run_heap_alloc,
		.heap_free = run_heap_free,
		.print = run_print,
		.set_condition = run_set_condition,
		.grid_id = atomic_fetch_add(&grids, 1) + 1,
		.sm_count = shape->sms,
		.clock_mhz = shape->clock_mhz,
		.resident_blocks = shape->sms * function_blocks_per_sm(kernel->function, threads,
								       kernel->shared_bytes),
		.stack_bytes = stack > KERNEL_STACK_LEAST ? (uint32_t)stack : KERNEL_STACK_LEAST,
		.shared_bytes = shape->shared_per_block_bytes,
	};
}

/* Makes the grid, with zeroed memory for its barrier if it is cooperative. */
static CUresult grid_make(struct run *run, const struct kernel_work *kernel,
			  struct space_range *ret_workspace, struct ptx_grid **ret_grid)
{
	struct ptx_environment environment = run_environment(run, kernel);
	struct ptx_launch launch = {
		.grid = {kernel->grid[0], kernel->grid[1], kernel->grid[2]},
		.block = {kernel->block[0], kernel->block[1], kernel->block[2]},
		.dynamic_shared_bytes = kernel->shared_bytes,
		.cooperative = kernel->cooperative,
		.params = kernel->parameters,
		.params_bytes = kernel->parameters_bytes,
	};
	int r;

	if (kernel->cooperative) {
		CUresult taken =
			memory_take(run->context, KERNEL_WORKSPACE, SPACE_MODULE, ret_workspace);

		if (taken != CUDA_SUCCESS)
			return taken;
		memset(space_shadow(ret_workspace->base), 0, KERNEL_WORKSPACE);
		environment.grid_workspace = ret_workspace->base;
	}
	r = ptx_grid_new(kernel->function->kernel, &launch, &environment, ret_grid);
	if (r == 0)
		return CUDA_SUCCESS;
	return r == PTX_NO_RESOURCES ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
				     : CUDA_ERROR_LAUNCH_FAILED;
}

/* A fault that the settings ask for; SUCCESS if the kernel runs. */
static CUresult fault_asked(int device, bool *ret_hang)
{
	*ret_hang = false;
	switch (faults_at(FAULTS_KERNEL, device)) {
	case FAULTS_LAUNCH_FAILED:
		return CUDA_ERROR_LAUNCH_FAILED;
	case FAULTS_ILLEGAL_ADDRESS:
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	case FAULTS_ECC:
		return CUDA_ERROR_ECC_UNCORRECTABLE;
	case FAULTS_LOST:
		return CUDA_ERROR_UNKNOWN;
	case FAULTS_HANG:
		*ret_hang = true;
		return CUDA_SUCCESS;
	case FAULTS_NONE:
	case FAULTS_OUT_OF_MEMORY:
	case FAULTS_ECC_CORRECTED:
	case FAULTS_XID:
	case FAULTS_SLOW:
	case FAULTS_DIE:
	case FAULTS_IN_USE:
	case FAULTS_NO_ROOM:
	case FAULTS_UNKNOWN:
	case FAULTS_STALL:
	case FAULTS_ELSEWHERE:
		break;
	}
	return CUDA_SUCCESS;
}

static CUresult engine_result(int r, struct CUctx_st *context)
{
	if (r == 0)
		return CUDA_SUCCESS;
	if (r == ENGINE_CANCELLED)
		return CUDA_ERROR_LAUNCH_FAILED;
	(void)context;
	return CUDA_ERROR_UNKNOWN;
}

CUresult kernel_execute(const struct kernel_work *kernel, struct CUctx_st *context,
			uint64_t *time_ns)
{
	struct CUfunc_st *function = kernel->function;
	struct run run = {.context = context,
			  .reach = atomic_load(&context->peers),
			  .values = graph_values_used()};
	struct engine_ticket ticket = {0};
	struct space_range workspace = {0};
	struct ptx_grid *grid = NULL;
	const struct ptx_report *report;
	uint64_t expected, took;
	bool hang;
	CUresult r, ended;

	if (!handle_is(HANDLE_FUNCTION, function) || function->module->context != context)
		return CUDA_ERROR_INVALID_HANDLE;
	r = fault_asked(context->device, &hang);
	if (r != CUDA_SUCCESS)
		return r;
	managed_touch(context->device);
	r = grid_make(&run, kernel, &workspace, &grid);
	if (r != CUDA_SUCCESS)
		goto out;
	report = ptx_grid_report(grid);
	expected = report->annotated ? modelled_ns(report, context->device)
				     : atomic_load(&function->last_ns);
	engine_kernel_begin(context->device, (uint32_t)context->id, *time_ns, expected, &ticket);
	ticket.cancel = hang ? &context->cancel : NULL;
	if (!hang)
		r = grid_run(grid, context, function->kernel->name);
	took = hang ? ENGINE_FOR_EVER
		    : modelled_ns(ptx_grid_report(grid), context->device) + run.fault_ns;
	ended = engine_result(engine_kernel_end(&ticket, took, time_ns, NULL), context);
	if (r == CUDA_SUCCESS)
		r = ended;
	if (r == CUDA_SUCCESS)
		atomic_store(&function->last_ns, took);
out:
	ptx_grid_free(grid);
	if (workspace.base)
		memory_give(&workspace);
	return r;
}
