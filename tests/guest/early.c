/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses CUDA before main, and leaves while its threads still do. Linked against the
 * driver's name, as any program. It has more thread-local data than a small stack has room for.
 */
#include <pthread.h>
#include <stdlib.h>

#include "cuda/prototypes.h"

static int early = -1;
static __thread volatile char much[3 << 20];

static CUresult launch(void)
{
	return cuLaunchKernel((CUfunction)1, 1, 2, 3, 4, 5, 6, 7, NULL, NULL, NULL);
}

static __attribute__((constructor)) void before_main(void)
{
	early = cuInit(0) == CUDA_SUCCESS && launch() == CUDA_SUCCESS;
}

static void *launches(void *argument)
{
	while (launch() == CUDA_SUCCESS)
		;
	return argument;
}

static void at_the_end(void)
{
	if (launch() != CUDA_SUCCESS)
		_Exit(3);
}

int main(void)
{
	pthread_t thread;

	much[1 << 20] = 1;
	if (early != 1 || atexit(at_the_end) != 0)
		return 1;
	for (int i = 0; i < 4; i++)
		if (pthread_create(&thread, NULL, launches, NULL) != 0)
			return 2;
	return launch() == CUDA_SUCCESS ? 0 : 4;
}
