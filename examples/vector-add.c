/* SPDX-License-Identifier: Apache-2.0 */
/* The first program of every GPU course: c = a + b, compared with the host. */
#include "examples/workload.h"
#include "examples/kernels/vector.ptx.h"

int main(int argc, char **argv)
{
	static const char *const settings[] = {"size", "rounds", NULL};
	unsigned n = (unsigned)workload_setting(argc, argv, "size", 64 << 10);
	unsigned rounds = (unsigned)workload_setting(argc, argv, "rounds", 8);
	struct workload w;
	float *a = malloc(n * sizeof(float)), *b = malloc(n * sizeof(float));
	CUdeviceptr device[3];
	size_t bytes = n * sizeof(float);
	CUfunction add;

	workload_begin(&w, "vector-add", vector_ptx, argc, argv, settings);
	if (!a || !b)
		workload_fail(&w, "no memory for %u elements", n);
	add = workload_kernel(&w, "vector_add");
	for (int i = 0; i < 3; i++)
		device[i] = workload_alloc(&w, bytes);
	for (unsigned round = 0; round < rounds; round++) {
		for (unsigned i = 0; i < n; i++) {
			a[i] = workload_random_unit(&w);
			b[i] = workload_random_unit(&w);
		}
		workload_try(&w, w.cuMemcpyHtoD_v2(device[0], a, bytes));
		workload_try(&w, w.cuMemcpyHtoD_v2(device[1], b, bytes));
		workload_launch(&w, NULL, add, n,
				(void *[]){&device[0], &device[1], &device[2], &n});
		for (unsigned i = 0; i < n; i++)
			a[i] += b[i];
		workload_try(&w, w.cuMemcpyDtoH_v2(b, device[2], bytes));
		for (unsigned i = 0; i < n; i++)
			if (a[i] != b[i])
				workload_fail(&w, "element %u is %a, wanted %a", i, b[i], a[i]);
		workload_sum(&w, b, bytes);
	}
	for (int i = 0; i < 3; i++)
		workload_free(&w, device[i], bytes);
	free(a);
	free(b);
	return workload_end(&w, "elements=%u rounds=%u", n, rounds);
}
