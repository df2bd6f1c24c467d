/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stock: memory that moves, was freed, and is still mapped, so that the next allocation of its
 * size need not create and map it. Programs that take and free the same sizes again and again would
 * pay for that each time, though such calls are cheap if memory does not move.
 *
 * The stock counts as unused credit. It is given up for an allocation of another size, for meted's
 * recall on behalf of others, and after a while to the device. It belongs to no context, cannot
 * move, and is in no table of addresses. Law: each granted byte of a device is allocated, credit,
 * or in stock; only credit can be spent on anything.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/macros.h"

struct movable_area;

/* The area has left the table and nobody uses its memory. false: it is to be dissolved. */
must_check bool movable_stock_keep(struct movable_area *area);

/* One of this size, now allocated, or NULL. `slab`: one whose pieces are all free. */
must_check struct movable_area *movable_stock_take(uint64_t bytes, bool slab);

/* Turns stock into credit, oldest first, until there are `bytes` of credit or the stock is empty.
 * Calls the driver. */
void movable_stock_release(int device, uint64_t bytes);

/* ---- the agent's, and the mover's ------------------------------------------------------------ */

/* meted wants so much credit back. false: there is enough without it; answer. */
must_check bool movable_stock_recalled(uint32_t wire_device, uint32_t id, uint64_t bytes);

/* Answers a recall, and releases an area that was not wanted for long. Returns whether there was
 * anything to do. */
bool movable_stock_step(void);

/* Is an answer to be tried again? */
must_check bool movable_stock_pending(void);

/* The connection is lost, and with it the recall that came on it. With the lock of struct
 * movable_object held. */
void movable_stock_down(void);
