/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

KERNEL saxpy(unsigned n, float a, const float *x, float *y)
{
	for (unsigned i = first(); i < n; i += stride())
		y[i] = __nvvm_fma_rn_f(a, x[i], y[i]);
}
