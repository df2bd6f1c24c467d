/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of memory that have an account of their own. */
#include "guest/credit/memory_types.h"
#include "guest/credit/table.h"
#include "guest/memory/oversize.h"
#include "guest/memory/pools.h"

const struct memory_end memory_ends[MEMORY_KINDS] = {
	[MEMORY_POOLED] = {pools_entry_leaves, pools_entry_freed},
	[MEMORY_OVERSIZE] = {NULL, oversize_freed},
};
