/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which limits the driver has of which control group on which device, and which it should have.
 * Pure: it says which calls are to be made, and is told what became of them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

#define NATIVE_NONE UINT64_MAX /* no limit */

/* A tenant has processes in the group. */
struct native_want {
	const char *group;
	uint32_t device, tenant;
	uint64_t bytes; /* its limit */
};

struct native_row {
	char *group; /* owned */
	uint32_t device;
	uint64_t wanted, tried; /* NATIVE_NONE */
	bool set;		/* the driver may have a limit */
	int refused;		/* -errno of the last call; 0 */
};

/* All zero: empty. Sorted by device and group. */
struct native_book {
	struct native_row *row;
	uint32_t count;
};

/* From now on these are wanted, in any order; sorts them. Limits that nobody wants any more are
 * taken back. A group with processes of two tenants is neither's own, and has no limit. The
 * book's rows are others afterwards. -ENOMEM: all is as it was. */
must_check int native_book_want(struct native_book *book, struct native_want *want, uint32_t count);
/* The first row from `from` on for which the driver is to be called, with `wanted`; the book's
 * count: none. */
uint32_t native_book_next(const struct native_book *book, uint32_t from);
/* That call's result: 0 or -errno. A refused one is not repeated before another limit is wanted.
 */
void native_book_done(struct native_book *book, uint32_t row, int result);
void native_book_free(struct native_book *book);
