/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

KERNEL vector_add(const float *a, const float *b, float *sum, unsigned n)
{
	for (unsigned i = first(); i < n; i += stride())
		sum[i] = a[i] + b[i];
}

/* x[i] = i * factor + offset, in integers: a pattern that any block of it can be checked against. */
KERNEL fill_pattern(unsigned *x, unsigned n, unsigned factor, unsigned offset)
{
	for (unsigned i = first(); i < n; i += stride())
		x[i] = i * factor + offset;
}

/* Counts the elements that differ from the pattern. */
KERNEL check_pattern(const unsigned *x, unsigned n, unsigned factor, unsigned offset,
		     unsigned *wrong)
{
	unsigned mine = 0;

	for (unsigned i = first(); i < n; i += stride())
		mine += x[i] != i * factor + offset;
	if (mine)
		__nvvm_atom_add_gen_i((int *)wrong, (int)mine);
}

/* One step of a recurrence that cannot be skipped or run twice unseen. */
KERNEL advance(unsigned *x, unsigned n)
{
	for (unsigned i = first(); i < n; i += stride())
		x[i] = x[i] * 1664525u + 1013904223u;
}

/* Holds the engine for `ns`, computing nothing. */
KERNEL busy(unsigned ns)
{
	sleep_ns(ns);
}

/* Likewise, for as long as one likes: a GPU sleeps for no more than a millisecond at once. */
KERNEL busy_long(unsigned ns)
{
	for (; ns > 1000000; ns -= 1000000)
		sleep_ns(1000000);
	sleep_ns(ns);
}
