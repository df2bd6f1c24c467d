/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CUDA C without a toolkit: what Debian's clang needs to know to turn these files into PTX. The
 * same PTX runs on the simulated driver and on a real GPU.
 */
#define KERNEL extern "C" __attribute__((global)) void
#define DEVICE static inline __attribute__((device))
#define SHARED __attribute__((shared))

DEVICE unsigned thread_index(void)
{
	return (unsigned)__nvvm_read_ptx_sreg_tid_x();
}

DEVICE unsigned thread_row(void)
{
	return (unsigned)__nvvm_read_ptx_sreg_tid_y();
}

DEVICE unsigned block_index(void)
{
	return (unsigned)__nvvm_read_ptx_sreg_ctaid_x();
}

DEVICE unsigned block_row(void)
{
	return (unsigned)__nvvm_read_ptx_sreg_ctaid_y();
}

DEVICE unsigned block_size(void)
{
	return (unsigned)__nvvm_read_ptx_sreg_ntid_x();
}

DEVICE unsigned grid_size(void)
{
	return (unsigned)__nvvm_read_ptx_sreg_nctaid_x();
}

/* The first element of this thread, and how far the next one is. */
DEVICE unsigned first(void)
{
	return block_index() * block_size() + thread_index();
}

DEVICE unsigned stride(void)
{
	return grid_size() * block_size();
}

DEVICE void barrier(void)
{
	__nvvm_bar_sync(0);
}

/* Keeps the thread busy for about this long: the simulator's clock believes it, a GPU sleeps. */
DEVICE void sleep_ns(unsigned ns)
{
	asm volatile("nanosleep.u32 %0;" : : "r"(ns));
}
