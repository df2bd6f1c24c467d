/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves: calls that change what the driver holds and what is charged for it. Between the two the
 * daemon must not compare them: it would take what is not yet charged for a context, or the other
 * way round. It compares where no move is under way, and none began meanwhile.
 *
 * Counted in struct state and shown in the own page, as another daemon brings another page.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "guest/state.h"

/* Several threads show what they know; the page only ever rises. */
static inline void moves_raise(uint64_t *place, uint64_t value)
{
	uint64_t shown = __atomic_load_n(place, __ATOMIC_SEQ_CST);

	while (shown < value && !__atomic_compare_exchange_n(place, &shown, value, 0,
							     __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
	}
}

static inline void moves_begin(void)
{
	moves_raise(&guest_own_page.moves_begun, atomic_fetch_add(&state.moves_begun, 1) + 1);
}

static inline void moves_end(void)
{
	moves_raise(&guest_own_page.moves_ended, atomic_fetch_add(&state.moves_ended, 1) + 1);
}

/* In a page that is new. */
static inline void moves_show(void)
{
	moves_raise(&guest_own_page.moves_begun, atomic_load(&state.moves_begun));
	moves_raise(&guest_own_page.moves_ended, atomic_load(&state.moves_ended));
}
