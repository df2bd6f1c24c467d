/* SPDX-License-Identifier: Apache-2.0 */
/*                                                       sim/cuda/device_runtime.h
 * The part of the device runtime that cooperative groups need, as PTX of our own: the barrier of a
 * whole grid and its sizes. Programs link libcudadevrt.a for it, of which only machine code exists.
 *
 * Not here: launches from kernels. A program that uses them fails at its link, by their name.
 */
#pragma once

/* cudaCGGetIntrinsicHandle, cudaCGSynchronize, cudaCGSynchronizeGrid, cudaCGGetSize,
 * cudaCGGetRank; weak, so that linking it twice does no harm. */
extern const char device_runtime_ptx[];
