/* SPDX-License-Identifier: Apache-2.0 */
/*                                                              sim/ptx/ptx.h
 * PTX text in, computed memory out: the simulated GPU's processor.
 *
 * A library without threads, clock, or knowledge of the driver. It reads one or several PTX texts
 * as cuLinkAddData takes them, links them, and interprets kernels a warp (32 lanes) at a time over
 * memory that the caller describes. What it has no row for in ptx.def fails the *load* of its
 * module, and is named; nothing is skipped at run time.
 *
 * Refused: textures, surfaces, tensor cores (but mma.m16n8k16 f16), 32-bit addresses, thread block
 * clusters of more than one block. Text may be hostile: any bytes give an outcome, never a crash.
 *
 * Threads: a module is constant once it is placed and may be used by many grids at once; one grid
 * belongs to one thread at a time. Different grids may run on different threads.
 *
 * Returns: 0 done, >0 an outcome named below, <0 -errno (-ENOMEM; -EINVAL for a misuse of the API).
 *
 * Cost. In an entry's body (in C: asm volatile(".pragma \"mete-cost-ns 5000\";")):
 *	.pragma "mete-cost-ns N";               the kernel takes N ns
 *	.pragma "mete-cost-ns-param K M";       parameter K (an integer, from 0) times M ns
 *	.pragma "mete-cost-bytes N";            it moves N bytes at the device's bandwidth
 *	.pragma "mete-cost-bytes-param K M";    parameter K times M bytes
 * Several add up. NVIDIA's compiler ignores strings that it does not know. The sums stand in
 * struct ptx_report from ptx_grid_new() on; what they mean for time is the driver's business.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"

/* Where a thread's generic addresses of shared, local and kernel-parameter memory begin. Device
 * memory must lie below PTX_WINDOWS; function addresses lie above it as well. */
#define PTX_WINDOWS	    0x0010000000000000ull
#define PTX_WINDOW_SHARED   0x0010000000000000ull
#define PTX_WINDOW_LOCAL    0x0011000000000000ull
#define PTX_WINDOW_PARAM    0x0012000000000000ull
#define PTX_WINDOW_FUNCTION 0x0013000000000000ull
#define PTX_WINDOW_SIZE	    0x0001000000000000ull

struct ptx_module;
struct ptx_grid;

/* ---- loading ------------------------------------------------------------------------------ */

enum ptx_load_outcome {
	/* Not PTX, PTX without a row in ptx.def, or for a newer device: CUDA_ERROR_INVALID_PTX. */
	PTX_INVALID = 1,
	PTX_TOO_NEW,	/* a .version above ptx_version: CUDA_ERROR_UNSUPPORTED_PTX_VERSION */
	PTX_UNRESOLVED, /* a symbol that no text defines, or that two define */
};

struct ptx_source {
	const char *text;
	size_t bytes;	  /* 0: the text ends at its NUL. Otherwise it ends there or at a NUL. */
	const char *name; /* for messages; may be NULL */
};

struct ptx_options {
	uint32_t capability;  /* of the device, 70 for 7.0 */
	uint32_t ptx_version; /* newest accepted, 88 for 8.8; 0 means 88 */
};

/* One sentence, and where: "line 12 of saxpy.ptx: tex.2d.v4.f32.f32 is not simulated". */
struct ptx_error {
	char text[320];
	uint32_t source; /* which of the sources, from 0 */
	uint32_t line;	 /* from 1; 0 where no single line is at fault */
};

/* Reads and links. Sources are not referenced after the call. */
must_check int ptx_module_new(const struct ptx_source *sources, size_t n_sources,
			      const struct ptx_options *options, struct ptx_module **ret_module,
			      struct ptx_error *ret_error);
void ptx_module_free(struct ptx_module *module); /* no grid of it may be alive; NULL is fine */

/* ---- data --------------------------------------------------------------------------------- */

struct ptx_variable {
	const char *name; /* the module's */
	uint64_t offset;  /* from the module's base address */
	uint64_t size_bytes;
	bool constant; /* .const */
	bool managed;  /* .attribute(.managed) */
};

/* How much device memory the module's .global and .const variables need (bytes may be 0). */
void ptx_module_data(const struct ptx_module *module, uint64_t *ret_bytes, uint64_t *ret_align);

/* Fixes the variables at a device address and writes all bytes of their initial values (zero where
 * none is given) through host_view, where the caller can write that memory. Once, before any grid;
 * needed also when there are no data. */
must_check int ptx_module_place(struct ptx_module *module, uint64_t base_address, void *host_view);

/* NULL: no such variable. Names are as in the text; those of .visible, .weak and .common ones, and
 * of others where no visible one has it. */
const struct ptx_variable *ptx_module_variable(const struct ptx_module *module, const char *name);
const struct ptx_variable *ptx_module_variable_at(const struct ptx_module *module, size_t index);

/* ---- kernels ------------------------------------------------------------------------------ */

struct ptx_param {
	uint32_t offset, size_bytes, align;
};

struct ptx_kernel {
	const char *name;
	const struct ptx_module *module;
	const struct ptx_param *params;
	uint32_t n_params, params_bytes;
	uint32_t shared_bytes; /* static */
	uint32_t local_bytes;  /* per thread, of this function alone */
	uint32_t const_bytes;  /* of its module */
	uint32_t registers;    /* an estimate, 32-bit ones per thread, 16..255 */
	uint32_t max_threads;  /* of a block: .maxntid, .reqntid, or 1024 */
	uint32_t reqntid[3];   /* 0, 0, 0 where not given */
	uint32_t min_blocks;   /* .minnctapersm, or 0 */
	uint32_t ptx_version;  /* 75 for 7.5 */
	uint32_t target;       /* 70 for sm_70 */
	const char *lacks; /* an instruction that is not simulated, where it has one (of surfaces):
			    * it is not to be launched */
};

const struct ptx_kernel *ptx_module_kernel(const struct ptx_module *module, const char *name);
const struct ptx_kernel *ptx_module_kernel_at(const struct ptx_module *module, size_t index);

/* ---- running ------------------------------------------------------------------------------ */

/* Device addresses [lo, hi) are the host's at address + host_delta (modulo 2^64). */
struct ptx_range {
	uint64_t lo, hi, host_delta;
	bool writable;
};

/* Members that are NULL or 0 take the default in brackets. Called on the thread that runs
 * the grid. */
struct ptx_environment {
	void *context; /* handed to each callback */
	/* Which mapped range holds this address: 0, or anything else for none (a fault). */
	int (*find_range)(void *context, uint64_t address, struct ptx_range *ret_range);
	uint64_t (*now_ns)(void *context);		       /* [stands still at 0] */
	uint64_t (*heap_alloc)(void *context, uint64_t bytes); /* device malloc; 0 if full [full] */
	void (*heap_free)(void *context, uint64_t address);
	void (*print)(void *context, const char *text, size_t bytes); /* vprintf [dropped] */
	/* cudaGraphSetConditional [ignored] */
	void (*set_condition)(void *context, uint64_t handle, uint32_t value);
	uint64_t grid_id;
	uint64_t grid_workspace;  /* %envreg1/2 of a cooperative launch: 256 zeroed bytes [none] */
	uint32_t sm_count;	  /* [4] */
	uint32_t clock_mhz;	  /* of %clock [1000] */
	uint32_t resident_blocks; /* blocks that are begun at the same time [2 per SM] */
	uint32_t stack_bytes;	  /* per thread, for local memory and calls [65536] */
	uint32_t shared_bytes;	  /* most per block, static and dynamic [233472] */
};

struct ptx_launch {
	uint32_t grid[3], block[3];
	uint32_t cluster[3]; /* all 0 or all 1 */
	uint32_t dynamic_shared_bytes;
	bool cooperative;    /* all blocks are resident */
	const void *params;  /* laid out as params[] says; copied */
	size_t params_bytes; /* at least what the kernel has */
};

enum ptx_launch_outcome {
	PTX_BAD_SHAPE = 1, /* a zero or too large dimension, or against .maxntid/.reqntid */
	PTX_NO_RESOURCES,  /* shared memory, or a cooperative grid that can not be resident */
	PTX_NOT_PLACED,	   /* ptx_module_place() was not called */
};

enum ptx_run_outcome {
	PTX_RUNNING = 1, /* the budget is used up; call again */
	PTX_WAITING,	 /* as above, but all that every warp did was to poll, sleep or wait */
	PTX_FAULTED,	 /* the report says what; the grid is dead */
};

enum ptx_fault {
	PTX_FAULT_NONE,
	PTX_FAULT_ILLEGAL_ADDRESS, /* not mapped, or not writable: CUDA_ERROR_ILLEGAL_ADDRESS */
	PTX_FAULT_MISALIGNED,	   /* CUDA_ERROR_MISALIGNED_ADDRESS */
	PTX_FAULT_ADDRESS_SPACE,   /* a generic address of the wrong kind: ..._INVALID_ADDRESS_SPACE
				    */
	PTX_FAULT_TRAP,		   /* trap, brkpt: CUDA_ERROR_LAUNCH_FAILED */
	PTX_FAULT_ASSERT,     /* __assertfail: CUDA_ERROR_ASSERT (after its line was printed) */
	PTX_FAULT_INVALID_PC, /* a call of something that is no function: ..._INVALID_PC */
	PTX_FAULT_STACK,      /* calls too deep, or local memory beyond stack_bytes */
	PTX_FAULT_DEADLOCK,   /* every warp waits at barriers that no other warp can reach */
};

struct ptx_report {
	uint64_t thread_instructions;
	uint64_t warp_instructions;
	uint64_t sleep_ns; /* nanosleep along the longest chain of blocks, in modelled time */
	uint64_t cost_ns;  /* from .pragma; known before the first run */
	uint64_t cost_bytes;
	bool annotated; /* there was a .pragma "mete-cost-..." */
	uint64_t blocks_done;
	enum ptx_fault fault;
	bool fault_write;
	uint64_t fault_address;
	uint32_t fault_line, fault_source; /* of the PTX text */
	const char *fault_function;	   /* the module's; NULL without a fault */
	uint32_t fault_block[3], fault_thread[3];
};

must_check int ptx_grid_new(const struct ptx_kernel *kernel, const struct ptx_launch *launch,
			    const struct ptx_environment *environment, struct ptx_grid **ret_grid);

/* Runs about `budget` warp-instructions (at least one turn of one warp). 0: the grid is done.
 * Every warp of every resident block comes to its turn in bounded many calls. */
must_check int ptx_grid_run(struct ptx_grid *grid, uint64_t budget);

/* Mappings changed: ask find_range again. Between two ptx_grid_run(), on the same thread. */
void ptx_grid_forget_ranges(struct ptx_grid *grid);

const struct ptx_report *ptx_grid_report(const struct ptx_grid *grid);
void ptx_grid_free(struct ptx_grid *grid); /* at any time between runs; NULL is fine */
