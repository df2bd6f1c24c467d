/* SPDX-License-Identifier: Apache-2.0 */
/*                                                              sim/cuda/execute.h
 * Work as plain data, and the functions that carry it out: copies and sets (copy.c), kernels
 * (launch.c).
 *
 * The entry points describe work and hand it to a stream; the stream's worker calls x_execute()
 * when the work's turn has come. Graph nodes hold the same descriptions, cloned.
 *
 * Nothing here waits for a stream or orders anything. Executors take the time of their engine
 * (sim/machine/engine.h), hold the address space for reading (sim/cuda/space.h) and may run on any
 * thread.
 *
 * Ownership: a description owns its buffers. x_done() frees them and leaves the struct all zero;
 * doing it twice is harmless. x_clone() is deep.
 *
 * Time: *time_ns is the modelled time from which the work could run (submitted, or the end of what
 * it waited for); x_execute() moves it to the modelled end. See sim/machine/engine.h.
 *
 * Outcomes are the driver's CUresult. An error of x_execute() belongs to the context: the caller
 * makes it sticky with context_fail().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/types.h"
#include "base/macros.h"

struct CUctx_st;
struct CUfunc_st;

/* ---- copies --------------------------------------------------------------------------------- */

/* One side of a copy. Element (x, y, z) lies at address + x + y * pitch_bytes + z * slice_bytes. */
struct copy_place {
	uint64_t address; /* of the first byte that is copied */
	size_t pitch_bytes, slice_bytes;
	bool host; /* named as host memory by the caller: any address will do */
};

struct copy_work {
	struct copy_place to, from;
	size_t width_bytes, height, depth; /* 1 and 1 for a plain copy */
	void *staged; /* owned: pageable source, read when the copy was asked for */
};

/* A plain copy; `to_host` and `from_host` say which sides the caller named as host memory. */
void copy_plain(struct copy_work *ret_copy, uint64_t to, bool to_host, uint64_t from,
		bool from_host, size_t bytes);

/* From the driver's structure; also what graph memcpy nodes take. INVALID_VALUE as the driver. */
must_check CUresult copy_from_3d(const CUDA_MEMCPY3D *asked, struct copy_work *ret_copy);

/* Are both sides mapped, for all bytes? INVALID_VALUE if not. For the caller's thread. A captured
 * copy is not checked: it fails when its graph runs. */
must_check CUresult copy_check(const struct copy_work *copy, bool captured);

/* Reads a pageable source now, as the driver does. Nothing to do for other sources, nor when the
 * caller waits for the copy anyway. OUT_OF_MEMORY. Not for graph nodes: they read when they run. */
must_check CUresult copy_stage(struct copy_work *copy);

/* Does it involve host memory that the driver does not know? */
bool copy_is_pageable(const struct copy_work *copy);

/* May the call return before the copy is done, or is a pageable destination waited for? */
bool copy_is_synchronous(const struct copy_work *copy);

must_check CUresult copy_clone(const struct copy_work *copy, struct copy_work *ret_copy);
void copy_done(struct copy_work *copy);
must_check CUresult copy_execute(const struct copy_work *copy, struct CUctx_st *context,
				 uint64_t *time_ns);

/* ---- sets ----------------------------------------------------------------------------------- */

struct set_work {
	uint64_t address;
	size_t pitch_bytes, width_elements, height; /* height 1, pitch 0 for a plain set */
	uint32_t value;
	uint32_t element_bytes; /* 1, 2 or 4 */
};

must_check CUresult set_check(const struct set_work *set, bool captured); /* likewise */
must_check CUresult set_execute(const struct set_work *set, struct CUctx_st *context,
				uint64_t *time_ns);

/* ---- kernels -------------------------------------------------------------------------------- */

struct kernel_work {
	struct CUfunc_st *function; /* borrowed: the module must outlive the work, as on a GPU */
	uint32_t grid[3], block[3];
	uint32_t shared_bytes; /* dynamic */
	bool cooperative;
	size_t parameters_bytes;
	uint8_t *parameters; /* owned; laid out as the kernel declares them */
};

/* Validates shape and resources and copies the parameters. `f` may be a CUkernel. Exactly one of
 * params and extra is given where the kernel has parameters. `shape` needs grid, block,
 * shared_bytes and cooperative only. */
must_check CUresult kernel_prepare(CUfunction f, const struct kernel_work *shape, void **params,
				   void **extra, struct kernel_work *ret_kernel);

/* Points at one parameter inside the work's buffer; NULL beyond the last one. */
void *kernel_parameter(const struct kernel_work *kernel, size_t index);

must_check CUresult kernel_clone(const struct kernel_work *kernel, struct kernel_work *ret_kernel);
void kernel_done(struct kernel_work *kernel);
must_check CUresult kernel_execute(const struct kernel_work *kernel, struct CUctx_st *context,
				   uint64_t *time_ns);

/* ---- stream-ordered memory ------------------------------------------------------------------ */

/* The address is reserved when the call is made; the memory comes and goes in the
 * stream's order. */
struct pool_work {
	uint64_t address;
	bool release; /* false: becomes usable; true: is given back to its pool */
};

must_check CUresult pool_execute(const struct pool_work *work, struct CUctx_st *context,
				 uint64_t *time_ns);
