/* SPDX-License-Identifier: Apache-2.0 */
/*                                                                sim/cuda/image.h
 * Code as programs hand it over: PTX text, a fat binary that holds PTX, or the output of
 * cuLinkComplete(). Machine code alone is refused: CUDA_ERROR_NO_BINARY_FOR_GPU.
 *
 * The bytes come from a program without a length: a fat binary's own lengths have to be believed,
 * as by a driver.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "sim/ptx/ptx.h"

/* One or more PTX texts. All zero: empty. */
struct image {
	struct ptx_source *sources; /* texts and names are owned */
	size_t n_sources;
	unsigned max_registers; /* CU_JIT_MAX_REGISTERS; 0: not limited */
};

/* Where messages go, as CU_JIT_* options say. All zero: nowhere. */
struct image_log {
	char *error, *info;
	size_t error_bytes, info_bytes;
	void **error_used, **info_used; /* the option values that get how much was written */
	void **wall_time;
	unsigned max_registers; /* not a message, but an option too; 0: none */
};

/* Chooses among the texts in a fat binary: the newest that the capability (70) can run. */
must_check CUresult image_read(const void *bytes, uint32_t capability, struct image *ret_image);

/* A file's content. FILE_NOT_FOUND, INVALID_IMAGE. */
must_check CUresult image_read_file(const char *path, uint32_t capability, struct image *ret_image);

/* Adds a text; `bytes` 0: it ends at its NUL. OUT_OF_MEMORY. */
must_check CUresult image_add(struct image *image, const char *text, size_t bytes,
			      const char *name);

/* Moves all of `from` to the end of `image`. OUT_OF_MEMORY. */
must_check CUresult image_append(struct image *image, struct image *from);

must_check CUresult image_clone(const struct image *image, struct image *ret_image);
void image_done(struct image *image);

/* The bytes that image_read() takes back: what cuLinkComplete() hands out. From malloc. */
must_check CUresult image_pack(const struct image *image, void **ret_bytes, size_t *ret_size);

/* INVALID_VALUE for options that are contradictory or unknown. */
must_check CUresult image_log_options(struct image_log *ret_log, unsigned n, CUjit_option *options,
				      void **values);
void image_log_error(const struct image_log *log, const char *text);
void image_log_done(const struct image_log *log); /* nothing went wrong */

/* Reads and links the texts for a device. */
must_check CUresult image_compile(const struct image *image, CUdevice device,
				  const struct image_log *log, struct ptx_module **ret_code);
