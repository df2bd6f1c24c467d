/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes everything at the start, as frameworks with their own allocators do: what the driver says
 * is free, in ever smaller pieces until it is refused, and then works inside. The refusal must be
 * CUDA_ERROR_OUT_OF_MEMORY, and what was got must be within `limit` where that is given.
 */
#include "examples/workload.h"
#include "examples/kernels/vector.ptx.h"

enum { PIECES = 256 };
static const size_t smallest_bytes = 1 << 20;

struct hoard {
	CUdeviceptr piece[PIECES];
	size_t bytes[PIECES];
	size_t pieces, total_bytes;
};

static void take_all(struct workload *w, struct hoard *hoard)
{
	size_t free_bytes, device_bytes, next;

	workload_try(w, w->cuMemGetInfo_v2(&free_bytes, &device_bytes));
	next = free_bytes / 2;
	while (hoard->pieces < PIECES && next >= smallest_bytes) {
		CUresult result;

		next = next / smallest_bytes * smallest_bytes;
		result = w->cuMemAlloc_v2(&hoard->piece[hoard->pieces], next);
		if (result == CUDA_ERROR_OUT_OF_MEMORY) {
			next /= 2;
			continue;
		}
		workload_tried(w, result, "cuMemAlloc");
		hoard->bytes[hoard->pieces++] = next;
		hoard->total_bytes += next;
	}
	w->held_bytes = w->peak_bytes = hoard->total_bytes;
}

/* The first and the last MiB of each piece: enough to see that it is ours and nobody else's. */
static void work_in(struct workload *w, const struct hoard *hoard)
{
	CUfunction fill = workload_kernel(w, "fill_pattern");
	CUfunction check = workload_kernel(w, "check_pattern");
	unsigned n = (256 << 10) / sizeof(uint32_t), factor = 2654435761u;
	CUdeviceptr counter = hoard->piece[hoard->pieces - 1];
	uint32_t wrong = 0;

	/* The last piece holds the counter, so that only the others are filled. */
	for (size_t i = 0; i + 1 < hoard->pieces; i++) {
		CUdeviceptr ends[] = {hoard->piece[i],
				      hoard->piece[i] + hoard->bytes[i] - n * sizeof(uint32_t)};

		for (unsigned end = 0; end < 2; end++) {
			unsigned offset = (unsigned)i * 2 + end;

			workload_launch(w, NULL, fill, n,
					(void *[]){&ends[end], &n, &factor, &offset});
		}
	}
	workload_try(w, w->cuMemsetD32_v2(counter, 0, 1));
	for (size_t i = 0; i + 1 < hoard->pieces; i++) {
		CUdeviceptr ends[] = {hoard->piece[i],
				      hoard->piece[i] + hoard->bytes[i] - n * sizeof(uint32_t)};

		for (unsigned end = 0; end < 2; end++) {
			unsigned offset = (unsigned)i * 2 + end;

			workload_launch(w, NULL, check, n,
					(void *[]){&ends[end], &n, &factor, &offset, &counter});
		}
	}
	workload_try(w, w->cuMemcpyDtoH_v2(&wrong, counter, sizeof(wrong)));
	if (wrong)
		workload_fail(w, "%u words of what was hoarded have changed", wrong);
}

/* The beginning of the first piece: the same however much there was to take. */
static void sum_first(struct workload *w, const struct hoard *hoard)
{
	uint32_t seen[1024];

	workload_try(w, w->cuMemcpyDtoH_v2(seen, hoard->piece[0], sizeof(seen)));
	workload_sum(w, seen, sizeof(seen));
}

int main(int argc, char **argv)
{
	static const char *const settings[] = {"limit", NULL};
	size_t limit_bytes = workload_setting(argc, argv, "limit", 0);
	struct hoard hoard = {0};
	struct workload w;

	workload_begin(&w, "hoarder", vector_ptx, argc, argv, settings);
	take_all(&w, &hoard);
	if (hoard.pieces < 2)
		workload_fail(&w, "there is no memory to hoard");
	if (limit_bytes && hoard.total_bytes > limit_bytes)
		workload_fail(&w, "got %zu bytes, more than the limit of %zu", hoard.total_bytes,
			      limit_bytes);
	work_in(&w, &hoard);
	sum_first(&w, &hoard);
	for (size_t i = 0; i < hoard.pieces; i++)
		workload_free(&w, hoard.piece[i], hoard.bytes[i]);
	return workload_end(&w, "pieces=%zu", hoard.pieces);
}
