/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stock: memory that moves, was freed, and is still mapped, so that the next allocation of its
 * size need not create and map it. Programs that take and free the same sizes again and again would
 * pay for that each time, though they pay little where memory does not move.
 *
 * What is in stock counts as credit that is not used. Whoever wants it gets it: an allocation of
 * another size, meted's recall on behalf of others, and the device, after a while. It belongs to no
 * context, cannot move, and is in no table of addresses. Law: each byte of a device that is granted
 * is allocated, credit, or in stock; only the second can be spent on anything.
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

/* So much of it becomes credit, or all that there is. The longest there goes first. Called where
 * the driver may be called. */
void movable_stock_release(int device, uint64_t bytes);

/* ---- the agent's, and the mover's ------------------------------------------------------------ */

/* meted wants so much credit back. false: there is enough without it; answer. */
must_check bool movable_stock_recalled(uint32_t wire_device, uint32_t id, uint64_t bytes);

/* Answers a recall, and lets go what nobody has wanted. Returns whether there was anything. */
bool movable_stock_step(void);

/* Is an answer to be tried again? */
must_check bool movable_stock_pending(void);
