/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuIpc* of memory that moves, for which the driver has no such handles: the 64 bytes are ours.
 * They have the area, and a name that the lending process invented and told meted. A process that
 * opens such a handle asks meted for a channel to the lender, on which the area's blocks come as
 * descriptors (cuMemExportToShareableHandle). meted passes one end to each, and neither sees nor
 * keeps a descriptor of memory. The area stays where it is from then on.
 *
 * A borrower keeps its end of the channel as long as it has the memory open: if its lender frees
 * the memory meanwhile, it stays charged (guest/movable/movable_debt.c).
 *
 * Like the driver's own handles, these are good while the lender lives and has not freed the
 * memory, for processes other than itself, and an opened one is closed with its context.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"
#include "cuda/types.h"
#include "wire/wire.h"

/* What a handle consists of. */
struct lend_handle {
	char magic[8];
	uint8_t lender[16];
	uint64_t area;		/* its id */
	uint64_t area_bytes;	/* all of it, ... */
	uint64_t offset, bytes; /* ... and the allocation in it */
	uint64_t reserved;
};
_Static_assert(sizeof(struct lend_handle) == sizeof(CUipcMemHandle_v1), "of 64 bytes");

/* The message that comes on a channel with each descriptor. */
struct lend_part {
	uint64_t offset, bytes; /* in the area */
};

/* Is it of ours? */
bool lend_is_handle(const CUipcMemHandle_v1 *handle);

/* ---- the lender ------------------------------------------------------------------------------ */

/* Pins the area around the address and names it. CUDA_ERROR_NOT_SUPPORTED: memory that moves cannot
 * be exported here; nothing has changed. */
must_check CUresult lend_name(uint64_t address, CUipcMemHandle_v1 *ret_handle);

/* The name of this process; false: it has none. */
bool lend_own_name(uint8_t ret_name[16]);

/* The mover's: answers one caller. Returns whether there was one. */
bool lend_step(void);

/* Notes that a borrower has the area open as long as the other end of the channel is open. Takes
 * the descriptor. false: there are too many channels, and the caller keeps the descriptor. */
must_check bool debt_add(uint64_t area, int fd);

/* The area has been freed. Does a borrower still have it, so that `bytes` stay charged? */
must_check bool debt_owes(uint64_t area, uint64_t bytes);

/* Turns memory that borrowers have closed into credit. Returns whether there was any. */
bool debt_settle(void);

/* ---- the borrower ---------------------------------------------------------------------------- */

must_check CUresult borrow_open(const CUipcMemHandle_v1 *handle, unsigned flags,
				CUdeviceptr *ret_address);

/* CUDA_ERROR_NOT_FOUND: not ours. *ret_gone: it is no longer mapped. */
must_check CUresult borrow_close(CUdeviceptr address, bool *ret_gone);

/* The opened memory around an address. */
bool borrow_find(uint64_t address, uint64_t *ret_base, uint64_t *ret_bytes);

void borrow_rename(uint64_t owner, uint64_t now);
void borrow_context_gone(uint64_t owner);
