/* SPDX-License-Identifier: Apache-2.0 */
/* A driver with the exports that no header declares: each answers its name's length and its
 * arguments. With ALONE it has none of them. */
#include "cuda/prototypes.h"

#define EXPORTED __attribute__((visibility("default")))

EXPORTED CUresult cuInit(unsigned int Flags)
{
	(void)Flags;
	return CUDA_SUCCESS;
}

EXPORTED CUresult cuDriverGetVersion(int *driverVersion)
{
	*driverVersion = 12090;
	return CUDA_SUCCESS;
}

#ifndef ALONE
#define CUDA_NAME(symbol)                                                                          \
	EXPORTED long symbol(long a, long b, long c, long d, long e, long f, long g, double h);    \
	long symbol(long a, long b, long c, long d, long e, long f, long g, double h)              \
	{                                                                                          \
		return (long)sizeof(#symbol) + a + b + c + d + e + f + g + (long)h;                \
	}
#include "cuda/names.def"
#undef CUDA_NAME
#endif
