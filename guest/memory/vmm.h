/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Physical memory that the program maps itself: cuMemCreate() and related calls, multicast objects.
 * Everything is in the hooks (guest/memory/vmm.c).
 */
#pragma once

/* In a child of fork(). */
void vmm_forget(void);
