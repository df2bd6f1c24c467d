/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPUs of this machine as NVML shows them: for `mete pick`, and for verbs that show GPUs while
 * no meted runs. Keeps nothing.
 */
#pragma once

#include "base/fault.h"
#include "cli/pick_choose.h"
#include "base/board.h"

struct gpus;

/* The management library, as the loader or METE_DRIVER finds it. */
must_check int gpus_open(struct gpus **ret_gpus, struct fault *why);
void gpus_close(struct gpus *gpus);

/* A GPU that cannot be asked is left out, and is no failure: the others may suffice. `ret_count`:
 * how many there are, including those left out. */
must_check int gpus_look(const struct gpus *gpus, struct pick_gpu ret_gpu[PICK_GPUS],
			 size_t *ret_size, size_t *ret_count, struct fault *why);

/* "" if the driver does not say. */
struct gpus_model {
	char text[96];
};
struct gpus_model gpus_model(const struct gpus *gpus, unsigned index);

/* N of the GPU's file /dev/nvidiaN; -1: the driver does not say. */
int gpus_minor(const struct gpus *gpus, const char *uuid);

struct gpus_process {
	unsigned pid;
	uint64_t used_bytes;
};

/* The processes with a context on the GPU of that index, as far as the driver says. Returns how
 * many. */
must_check size_t gpus_processes(const struct gpus *gpus, unsigned index, struct gpus_process *out,
				 size_t room);

enum { GPUS_UNSAID = -1 };
/* How many processes may use the GPU of that index: nvmlComputeMode_t, or GPUS_UNSAID. -ENODEV:
 * there is no such GPU. */
int gpus_mode(const struct gpus *gpus, unsigned index);
/* Of a GPU or a MIG device, by the UUID as the driver writes it. NULL: the driver reports nothing.
 */
struct gpu_board gpus_gauges(const struct gpus *gpus, const char *uuid);

struct gpus_busy {
	unsigned pid, percent; /* of the time since then */
};

/* Each process's part of the GPU's time since `*since_us`: the mean of the driver's samples. Sets
 * `*since_us` (by the driver's clock; 0: all samples that it keeps) to the newest one. Returns how
 * many processes there are; 0 also if the driver does not say. */
must_check size_t gpus_busy(const struct gpus *gpus, const char *uuid, uint64_t *since_us,
			    struct gpus_busy *out, size_t room);

static inline void gpus_close_owned(struct gpus **gpus)
{
	gpus_close(*gpus);
}
