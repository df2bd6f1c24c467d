/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GPUs of this machine as NVML shows them: for who picks one, and for who looks while no meted
 * runs. Asks, and keeps nothing.
 */
#pragma once

#include "base/fault.h"
#include "cli/pick_choose.h"

struct gpus;

/* The management library, as the loader or METE_DRIVER finds it. */
must_check int gpus_open(struct gpus **ret_gpus, struct fault *why);
void gpus_close(struct gpus *gpus);

/* A GPU that cannot be asked is left out, not fatal: the others may do. `ret_count`: how many there
 * are, those included. */
must_check int gpus_look(const struct gpus *gpus, struct pick_gpu ret_gpu[PICK_GPUS],
			 size_t *ret_size, size_t *ret_count, struct fault *why);

/* "" where it does not say. */
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

/* Who has a context on the GPU of that index, as far as the driver says; how many. */
must_check size_t gpus_processes(const struct gpus *gpus, unsigned index, struct gpus_process *out,
				 size_t room);

/* What the board says of itself; GPUS_UNSAID where it does not. */
enum { GPUS_UNSAID = -1 };
struct gpus_gauges {
	int load_percent; /* of the last sample's time, with a kernel on it */
	int celsius;
	int watts, watts_most; /* now, and what it may take */
	int mhz;	       /* of its multiprocessors */
};
/* Of a GPU or a MIG device, by the UUID as the driver writes it. NULL: nothing is said. */
struct gpus_gauges gpus_gauges(const struct gpus *gpus, const char *uuid);

struct gpus_busy {
	unsigned pid, percent; /* of the time since then */
};

/* What each process had of the GPU's time since `*since_us`, by the driver's samples: their mean.
 * Moves
 * `*since_us` (by the driver's clock; 0: all that it keeps) to the newest. How many processes there
 * are; 0 also where the driver does not say. */
must_check size_t gpus_busy(const struct gpus *gpus, const char *uuid, uint64_t *since_us,
			    struct gpus_busy *out, size_t room);

static inline void gpus_close_owned(struct gpus **gpus)
{
	gpus_close(*gpus);
}
