/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A notebook: a person runs a cell, looks at the result, thinks, runs the next one. Memory is held
 * all the time; the device is used in bursts. Each burst advances a table that is checked at the
 * end.
 */
#include <time.h>

#include "examples/workload.h"
#include "examples/kernels/vector.ptx.h"

static void think(uint64_t ms)
{
	struct timespec pause = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

	while (nanosleep(&pause, &pause) != 0 && errno == EINTR)
		;
}

int main(int argc, char **argv)
{
	static const char *const settings[] = {"cells", "kernels", "think", "size", NULL};
	size_t cells = workload_setting(argc, argv, "cells", 6);
	size_t kernels = workload_setting(argc, argv, "kernels", 20);
	uint64_t think_ms = workload_setting(argc, argv, "think", 50);
	unsigned n = (unsigned)workload_setting(argc, argv, "size", 16 << 10);
	size_t bytes = n * sizeof(uint32_t);
	uint32_t *table = malloc(bytes);
	struct workload w;
	CUfunction advance, fill;
	CUdeviceptr device;
	unsigned factor = 3, offset = 1;

	workload_begin(&w, "notebook", vector_ptx, argc, argv, settings);
	if (!table || !n)
		workload_fail(&w, "size=%u: no memory for it", n);
	fill = workload_kernel(&w, "fill_pattern");
	advance = workload_kernel(&w, "advance");
	device = workload_alloc(&w, bytes);
	workload_launch(&w, NULL, fill, n, (void *[]){&device, &n, &factor, &offset});
	for (size_t cell = 0; cell < cells; cell++) {
		for (size_t i = 0; i < kernels; i++)
			workload_launch(&w, NULL, advance, n, (void *[]){&device, &n});
		workload_try(&w, w.cuCtxSynchronize());
		think(think_ms);
	}
	workload_try(&w, w.cuMemcpyDtoH_v2(table, device, bytes));
	for (unsigned i = 0; i < n; i += 97) {
		uint32_t wanted = i * factor + offset;

		for (size_t k = 0; k < cells * kernels; k++)
			wanted = wanted * 1664525u + 1013904223u;
		if (table[i] != wanted)
			workload_fail(&w, "entry %u is %u, wanted %u", i, table[i], wanted);
	}
	workload_sum(&w, table, bytes);
	workload_free(&w, device, bytes);
	free(table);
	return workload_end(&w, "cells=%zu kernels=%zu", cells, cells * kernels);
}
