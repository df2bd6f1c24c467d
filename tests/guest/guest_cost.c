/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What bench/launch-cost.sh and bench/resolve-cost.sh measure: guest_cost LIBRARY WHAT COUNT calls
 * the driver COUNT times through LIBRARY (the guest, or a driver itself). WHAT: launch, resolve.
 */
#include "tests/guest/fake_meted.h"
#include "tests/guest/guest_test.h"

static void launch(void *library, unsigned long count)
{
	api_fn_cuLaunchKernel *f = guest_function(library, cuLaunchKernel);

	for (unsigned long i = 0; i < count; i++)
		f((CUfunction)1, 1, 2, 3, 4, 5, 6, 7, (CUstream)8, NULL, NULL);
}

static void resolve(void *library, unsigned long count)
{
	static const char *const names[] = {"cuMemAlloc", "cuLaunchKernel", "cuCtxGetDevice",
					    "cuStreamBeginCapture", "cuGetProcAddress"};
	api_fn_cuGetProcAddress_v2 *f = guest_function(library, cuGetProcAddress_v2);
	CUdriverProcAddressQueryResult status;
	void *address;

	for (unsigned long i = 0; i < count; i++)
		check(f(names[i % ARRAY_SIZE(names)], &address, 12090, 0, &status) == 0);
}

int main(int argc, char **argv)
{
	static struct fake fake;
	void *library;

	if (argc != 4) {
		fprintf(stderr, "usage: guest_cost LIBRARY launch|resolve COUNT\n");
		return 2;
	}
	fake_start(&fake, 1, FAKE_GOOD);
	library = dlopen(argv[1], RTLD_NOW);
	if (!library) {
		fprintf(stderr, "guest_cost: %s\n", dlerror());
		return 1;
	}
	check(guest_function(library, cuInit)(0) == CUDA_SUCCESS);
	(strcmp(argv[2], "launch") == 0 ? launch : resolve)(library, strtoul(argv[3], NULL, 10));
	fake_stop(&fake);
	return 0;
}
