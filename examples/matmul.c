/* SPDX-License-Identifier: Apache-2.0 */
/* Tiled matrix product. Entries are small integers, so that the host's result is equal exactly. */
#include "examples/workload.h"
#include "examples/kernels/matmul.ptx.h"

static void check(struct workload *w, const float *a, const float *b, const float *c, unsigned n)
{
	/* A few rows: the host would need longer than the device for all of them. */
	for (unsigned row = 0; row < n; row += n / 8) {
		for (unsigned column = 0; column < n; column++) {
			float sum = 0;

			for (unsigned k = 0; k < n; k++)
				sum += a[row * n + k] * b[k * n + column];
			if (sum != c[row * n + column])
				workload_fail(w, "c[%u][%u] is %a, wanted %a", row, column,
					      c[row * n + column], sum);
		}
	}
}

int main(int argc, char **argv)
{
	static const char *const settings[] = {"size", "rounds", NULL};
	unsigned n = (unsigned)workload_setting(argc, argv, "size", 64);
	unsigned rounds = (unsigned)workload_setting(argc, argv, "rounds", 2);
	size_t bytes = (size_t)n * n * sizeof(float);
	struct workload w;
	float *host[3];
	CUdeviceptr device[3];
	CUfunction kernel;

	workload_begin(&w, "matmul", matmul_ptx, argc, argv, settings);
	if (n == 0 || n % 16)
		workload_fail(&w, "size=%u: a multiple of 16 is wanted", n);
	kernel = workload_kernel(&w, "matmul");
	for (int i = 0; i < 3; i++) {
		host[i] = malloc(bytes);
		if (!host[i])
			workload_fail(&w, "no memory for %u x %u", n, n);
		device[i] = workload_alloc(&w, bytes);
	}
	for (unsigned round = 0; round < rounds; round++) {
		void *arguments[] = {&device[0], &device[1], &device[2], &n};

		for (int i = 0; i < 2; i++) {
			for (unsigned k = 0; k < n * n; k++)
				host[i][k] = (float)(int)(workload_random(&w) % 17) - 8;
			workload_try(&w, w.cuMemcpyHtoD_v2(device[i], host[i], bytes));
		}
		workload_try(&w, w.cuLaunchKernel(kernel, n / 16, n / 16, 1, 16, 16, 1, 0, NULL,
						  arguments, NULL));
		workload_try(&w, w.cuMemcpyDtoH_v2(host[2], device[2], bytes));
		check(&w, host[0], host[1], host[2], n);
		workload_sum(&w, host[2], bytes);
	}
	for (int i = 0; i < 3; i++) {
		workload_free(&w, device[i], bytes);
		free(host[i]);
	}
	return workload_end(&w, "size=%u rounds=%u", n, rounds);
}
